#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/detail/models/activation.h"
#include "lockstep/detail/models/bert_config.h"
#include "lockstep/detail/models/encoder_config.h"
#include "lockstep/detail/models/gpt2_config.h"
#include "lockstep/detail/models/sequence_head.h"
#include "lockstep/models/registry.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

struct BadConfig {
  const char* name;
  const char* json;
  const char* field;  // named in `where`
  const char* says;
};

class BadBertConfigs : public ::testing::TestWithParam<BadConfig> {};
class BadGpt2Configs : public ::testing::TestWithParam<BadConfig> {};

template <typename Config>
void expect_refusal(const BadConfig& bad) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "config.json", bad.json);
  try {
    Config::from_file(folder.path());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(error.where().find(folder / "config.json"), std::string::npos) << error.what();
    EXPECT_NE(error.where().find(bad.field), std::string::npos) << error.what();
    EXPECT_NE(error.happened().find(bad.says), std::string::npos) << error.what();
  }
}

TEST_P(BadBertConfigs, NameFileAndField) { expect_refusal<BertConfig>(GetParam()); }
TEST_P(BadGpt2Configs, NameFileAndField) { expect_refusal<GPT2Config>(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    Table, BadBertConfigs,
    ::testing::Values(
        BadConfig{"not_json", "{", "", "not JSON"}, BadConfig{"a_list", "[]", "", "not a JSON object"},
        BadConfig{"another_model", R"({"model_type":"roberta"})", "model_type", "\"roberta\""},
        BadConfig{"text_for_a_number", R"({"hidden_size":"768"})", "hidden_size", "not a whole number"},
        BadConfig{"fraction", R"({"vocab_size":10.5})", "vocab_size", "not a whole number"},
        BadConfig{"negative", R"({"vocab_size":-1})", "vocab_size", "out of range"},
        BadConfig{"over_int64", R"({"vocab_size":18446744073709551615})", "vocab_size", "out of range"},
        BadConfig{"zero_heads", R"({"num_attention_heads":0})", "num_attention_heads", "out of range"},
        BadConfig{"heads_do_not_divide", R"({"hidden_size":30,"num_attention_heads":4})", "hidden_size",
                  "not divisible by"},
        BadConfig{"dropout_above_one", R"({"hidden_dropout_prob":1.5})", "hidden_dropout_prob", "out of range"},
        BadConfig{"unknown_activation", R"({"hidden_act":"mish"})", "hidden_act", "\"mish\""},
        BadConfig{"relative_positions", R"({"position_embedding_type":"relative_key"})", "position_embedding_type",
                  "not supported"},
        BadConfig{"decoder", R"({"is_decoder":true})", "is_decoder", "not supported"},
        BadConfig{"cross_attention", R"({"add_cross_attention":true})", "add_cross_attention", "not supported"},
        BadConfig{"pruned", R"({"pruned_heads":{"1":[0]}})", "pruned_heads", "not supported"},
        BadConfig{"quantised", R"({"quantization_config":{"bits":8}})", "quantization_config", "not supported"},
        BadConfig{"pad_outside", R"({"vocab_size":10,"pad_token_id":10})", "pad_token_id", "out of range"},
        BadConfig{"label_missing", R"({"id2label":{"0":"a","2":"b"}})", "id2label", "none for id 1"},
        BadConfig{"label_a_number", R"({"id2label":{"0":5}})", "id2label", "not a string"},
        BadConfig{"problem_unknown", R"({"problem_type":"ranking"})", "problem_type", "ranking"},
        BadConfig{"boolean_text", R"({"tie_word_embeddings":"yes"})", "tie_word_embeddings", "not true or false"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Table, BadGpt2Configs,
    ::testing::Values(BadConfig{"another_model", R"({"model_type":"bert"})", "model_type", "\"bert\""},
                      BadConfig{"heads_do_not_divide", R"({"n_embd":30,"n_head":4})", "n_embd", "not divisible by"},
                      BadConfig{"older_name", R"({"hidden_size":0})", "hidden_size", "out of range"},
                      BadConfig{"activation", R"({"activation_function":"relu2"})", "activation_function", "relu2"},
                      BadConfig{"inner_zero", R"({"n_inner":0})", "n_inner", "out of range"},
                      BadConfig{"cross_attention", R"({"add_cross_attention":true})", "add_cross_attention",
                                "not supported"}),
    [](const auto& test) { return test.param.name; });

TEST(BertConfig, TakesDefaultsAndIgnoresWhatDoesNotChangeTheResult) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "config.json",
                        R"({"model_type":"bert","vocab_size":50,"use_cache":true,"output_attentions":true,
                            "chunk_size_feed_forward":4,"is_decoder":false,"pruned_heads":{},"unheard_of":[1],
                            "classifier_dropout":null,"hidden_act":"gelu_new","problem_type":null,
                            "id2label":{"0":"bad","1":"good","10":"c","2":"d","3":"e","4":"f","5":"g","6":"h","7":"i",
                                        "8":"j","9":"k"}})");
  const BertConfig config = BertConfig::from_file(folder / "config.json");
  EXPECT_EQ(config.vocab_size, 50);
  EXPECT_EQ(config.hidden_size, 768);
  EXPECT_EQ(config.hidden_act, Activation::GeluNew);
  EXPECT_FALSE(config.classifier_dropout);
  EXPECT_EQ(config.head.labels.size(), 11u);
  EXPECT_EQ(config.head.labels[10], "c");
  const auto json = nlohmann::json::parse(config.to_json("BertModel"));
  EXPECT_EQ(json["unheard_of"], nlohmann::json({1})) << "settings that are not ours are kept";
  EXPECT_EQ(json["hidden_size"], 768);
  EXPECT_EQ(json["label2id"]["c"], 10);
  EXPECT_EQ(json["architectures"], nlohmann::json({"BertModel"}));
}

// Hugging Face loads such a model, too; its label2id then has the last of them.
TEST(BertConfig, LabelsMayShareAName) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "config.json", R"({"id2label":{"0":"good","1":"bad","2":"good"}})");
  const BertConfig config = BertConfig::from_file(folder.path());
  EXPECT_EQ(config.head.labels, (std::vector<std::string>{"good", "bad", "good"}));
  const auto json = nlohmann::json::parse(config.to_json("BertForSequenceClassification"));
  EXPECT_EQ(json["id2label"], nlohmann::json({{"0", "good"}, {"1", "bad"}, {"2", "good"}}));
  EXPECT_EQ(json["label2id"], nlohmann::json({{"good", 2}, {"bad", 1}}));
}

// As Hugging Face writes it: two labels without names are the default.
TEST(BertConfig, GainsNoLabelsThatItsSourceDidNotHave) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "config.json", R"({"model_type":"bert","vocab_size":50})");
  const BertConfig config = BertConfig::from_file(folder / "config.json");
  for (const char* const name : {"id2label", "label2id", "num_labels"}) {
    EXPECT_FALSE(nlohmann::json::parse(config.to_json("BertForMaskedLM")).contains(name)) << name;
    EXPECT_FALSE(nlohmann::json::parse(GPT2Config().to_json("GPT2LMHeadModel")).contains(name)) << name;
  }
  BertConfig named = config;
  named.head.set_num_labels(3);
  EXPECT_EQ(nlohmann::json::parse(named.to_json("BertForSequenceClassification"))["id2label"].size(), 3U);
}

TEST(BertConfig, ComesBackFromItsOwnText) {
  const TemporaryFolder folder;
  BertConfig config = bert_config_of_size("mini");
  config.layer_norm_eps = 1e-7;
  config.pad_token_id.reset();
  config.classifier_dropout = 0.25;
  config.head.labels = {"a"};
  config.head.problem_type = ProblemType::Regression;
  write_file_atomically(folder / "config.json", config.to_json("BertForSequenceClassification"));
  const BertConfig again = BertConfig::from_file(folder.path());
  EXPECT_EQ(again.hidden_size, 256);
  EXPECT_EQ(again.num_hidden_layers, 4);
  EXPECT_EQ(again.layer_norm_eps, 1e-7);
  EXPECT_FALSE(again.pad_token_id);
  EXPECT_EQ(again.classifier_dropout, 0.25);
  EXPECT_EQ(again.head.labels, std::vector<std::string>{"a"});
  EXPECT_EQ(again.head.problem_type, ProblemType::Regression);
}

TEST(BertConfig, KnowsTheSmallSizesAndNoOthers) {
  EXPECT_EQ(bert_config_of_size("tiny").num_attention_heads, 2);
  EXPECT_EQ(bert_config_of_size("small").intermediate_size, 2048);
  EXPECT_THROW(bert_config_of_size("large"), Error);
}

TEST(GPT2Config, ReadsBothSetsOfNames) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "config.json",
                        R"({"model_type":"gpt2","hidden_size":64,"num_hidden_layers":3,"num_attention_heads":2,
                            "max_position_embeddings":9,"n_ctx":9,"pad_token_id":7,"summary_type":"cls_index"})");
  const GPT2Config config = GPT2Config::from_file(folder.path());
  EXPECT_EQ(config.n_embd, 64);
  EXPECT_EQ(config.n_layer, 3);
  EXPECT_EQ(config.n_positions, 9);
  EXPECT_EQ(config.pad_token_id, 7);
  write_file_atomically(folder / "config.json", config.to_json("GPT2LMHeadModel"));
  EXPECT_EQ(GPT2Config::from_file(folder.path()).n_embd, 64);
}

// Expected values by transformers: activations.QuickGELUActivation and FastGELUActivation, at -2, -0.5, 0, 1 and 3.
TEST(Activations, QuickAndFastGeluAreHuggingFaces) {
  const at::Tensor x = torch::tensor({-2.0, -0.5, 0.0, 1.0, 3.0}, torch::kDouble);
  const std::pair<const char*, at::Tensor> cases[] = {
      {"quick_gelu",
       torch::tensor({-0.06434137685579186, -0.1496115633936199, 0.0, 0.8457957659328212, 2.981928690292214},
                     torch::kDouble)},
      {"gelu_fast",
       torch::tensor({-0.04540230591282446, -0.15428599017516514, 0.0, 0.841191990607477, 2.9963626079181394},
                     torch::kDouble)}};
  for (const auto& [name, want] : cases) {
    ASSERT_TRUE(parse_activation(name)) << name;
    EXPECT_TRUE(torch::allclose(activate(*parse_activation(name), x), want, 0, 1e-9)) << name;
  }
}

// As the pipeline "text-classification" of transformers shows them.
TEST(ShownScores, AreProbabilitiesOrValuesByProblemType) {
  const at::Tensor outputs = torch::tensor({{0.0, 2.0}}, torch::kDouble);
  const double of_two = 1 / (1 + std::exp(-2.0));
  SequenceHead head;
  EXPECT_NEAR(shown_scores(head, outputs)[0][1].item<double>(), of_two, 1e-15);
  EXPECT_NEAR(shown_scores(head, outputs)[0][0].item<double>(), 1 - of_two, 1e-15);
  head.problem_type = ProblemType::MultiLabel;
  EXPECT_NEAR(shown_scores(head, outputs)[0][1].item<double>(), of_two, 1e-15);
  EXPECT_EQ(shown_scores(head, outputs)[0][0].item<double>(), 0.5);
  head.problem_type = ProblemType::Regression;
  EXPECT_EQ(shown_scores(head, outputs)[0][1].item<double>(), 2);
  SequenceHead of_one;
  of_one.set_num_labels(1);
  EXPECT_NEAR(shown_scores(of_one, outputs.select(1, 1))[0].item<double>(), of_two, 1e-15);
}

// Each size alone is possible for a model. A system that overcommits memory would try to allocate their product.
TEST(ModelSizes, ThatNoHostHoldsAreRefusedBeforeAnythingIsAllocated) {
  const std::pair<const char*, TextTask> cases[] = {
      {R"({"model_type":"bert","vocab_size":10000000,"hidden_size":10000000,"num_attention_heads":1})",
       TextTask::SequenceClassification},
      {R"({"model_type":"gpt2","vocab_size":10000000,"n_embd":10000000,"n_head":1})", TextTask::CausalLanguageModel}};
  for (const auto& [json, task] : cases) {
    const TemporaryFolder folder;
    write_file_atomically(folder / "config.json", json);
    try {
      load_pretrained_model(folder.path(), task);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_NE(error.happened().find("GB of memory"), std::string::npos) << error.what();
      EXPECT_NE(error.where().find(folder / "config.json, fields vocab_size"), std::string::npos) << error.what();
    }
  }
}

// transformers 5 loads weights in the "dtype" of config.json: single precision must not be called bfloat16.
TEST(Config, TheSavedOneNamesNoPrecision) {
  const TemporaryFolder folder;
  for (const char* type : {"bert", "gpt2", "roberta"}) {
    std::ofstream(folder / "config.json") << R"({"dtype": "bfloat16", "torch_dtype": "bfloat16", "pad_token_id": 1, )"
                                          << R"("model_type": ")" << type << "\"}";
    const std::string saved = type == std::string("bert")   ? BertConfig::from_file(folder.path()).to_json("BertModel")
                              : type == std::string("gpt2") ? GPT2Config::from_file(folder.path()).to_json("GPT2Model")
                                                            : RobertaConfig::from_file(folder.path()).to_json("R");
    EXPECT_EQ(saved.find("dtype"), std::string::npos) << saved;
  }
}

}  // namespace
}  // namespace lockstep

// Files whose tensors say another thing than "tie_word_embeddings" in config.json. As transformers 5.23,
// Lockstep unties what differs, and warns.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/base/files/json_file.h"
#include "lockstep/detail/safetensors/weight_files.h"
#include "lockstep/models/bert_heads.h"
#include "lockstep/models/encoder_models.h"
#include "lockstep/models/gpt2.h"
#include "lockstep/models/registry.h"
#include "tests/models/small_models.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

template <typename Config>
Config small_encoder_with(std::int64_t padding) {
  Config config;
  config.vocab_size = 11;
  config.hidden_size = 8;
  config.num_hidden_layers = 1;
  config.num_attention_heads = 2;
  config.intermediate_size = 12;
  config.max_position_embeddings = 9;
  config.pad_token_id = padding;
  config.embedding_size = config.embedding_size == 0 ? 0 : 8;
  return config;
}

// A saved model whose configuration ties the tensor `head` to `table`, or to the bias of that name.
struct TiedCase {
  const char* name;
  std::function<void(const std::string& folder)> save;
  TextTask task;
  std::string table;
  std::string head;
  std::string bias;          // empty: the head has none
  std::string further_bias;  // of the decoder, where files have two
  friend std::ostream& operator<<(std::ostream& out, const TiedCase& c) { return out << c.name; }
};

template <typename Module, typename Config>
std::function<void(const std::string&)> saver_of(const Config& config) {
  return [config](const std::string& folder) { std::make_shared<Module>(config)->save_pretrained(folder); };
}

class TiedWeights : public ::testing::TestWithParam<TiedCase> {
 protected:
  void SetUp() override { GetParam().save(folder_.path()); }

  // Writes the file again with `more` beside its own tensors.
  void add(const NamedTensors& more) {
    NamedTensors tensors = tensors_of_file();
    tensors.insert(tensors.end(), more.begin(), more.end());
    write_weight_files(folder_.path(), tensors);
  }
  NamedTensors tensors_of_file() const {
    NamedTensors tensors;
    const WeightFiles files(folder_.path());
    for (const std::string& name : files.names()) tensors.emplace_back(name, files.tensor(name).clone());
    return tensors;
  }
  torch::Tensor in_file(const std::string& name) const { return WeightFiles(folder_.path()).tensor(name).clone(); }
  Loaded<Model> load() const { return load_pretrained_model(folder_.path(), GetParam().task, {}); }
  static torch::Tensor scores(Model& model) {
    const torch::NoGradGuard no_grad;
    model.eval();
    const torch::Tensor ids = torch::tensor({{2, 3, 4}});
    return model.forward({{"input_ids", ids}, {"attention_mask", torch::ones_like(ids)}});
  }

  TemporaryFolder folder_;
};

TEST_P(TiedWeights, AreOneIfTheFileHasOneOrTheOtherOrEqualOnes) {
  const TiedCase& c = GetParam();
  const torch::Tensor before = scores(*load().model);
  add({{c.head, in_file(c.table)}});
  const auto both = load();
  EXPECT_EQ(both.report.text(), "");
  EXPECT_EQ(tied_tensors_that_differ(folder_.path()), "");
  EXPECT_FALSE(both.model->named_parameters().contains(c.head));
  EXPECT_TRUE(torch::equal(scores(*both.model), before));
  NamedTensors tensors = tensors_of_file();
  tensors.erase(std::remove_if(tensors.begin(), tensors.end(), [&](const auto& item) { return item.first == c.table; }),
                tensors.end());
  write_weight_files(folder_.path(), tensors);
  EXPECT_TRUE(torch::equal(scores(*load().model), before));
}

TEST_P(TiedWeights, AreUntiedWithAWarningIfTheFileHasTwoThatDiffer) {
  const TiedCase& c = GetParam();
  const torch::Tensor head = in_file(c.table) + 1;
  add({{c.head, head}});
  const auto loaded = load();
  EXPECT_NE(loaded.report.text().find("ties " + c.head + " to " + c.table), std::string::npos) << loaded.report.text();
  EXPECT_NE(loaded.report.text().find("NOT tied"), std::string::npos) << loaded.report.text();
  EXPECT_TRUE(loaded.report.missing.empty()) << loaded.report.text();
  EXPECT_EQ(tied_tensors_that_differ(folder_.path()), loaded.report.text());
  const auto parameters = loaded.model->named_parameters();
  ASSERT_TRUE(parameters.contains(c.head));
  EXPECT_TRUE(torch::equal(parameters[c.head], head));
  EXPECT_TRUE(torch::equal(parameters[c.table], in_file(c.table)));

  // The saved folder says that they are not tied, so it is read again in silence.
  save_model(*loaded.model, folder_ / "again");
  const auto config = read_json_object(folder_ / "again/config.json", 1 << 20);
  EXPECT_EQ(config->at("tie_word_embeddings"), false);
  const auto again = load_pretrained_model(folder_ / "again", c.task, {});
  EXPECT_EQ(again.report.text(), "");
  EXPECT_TRUE(torch::equal(scores(*again.model), scores(*loaded.model)));
}

TEST_P(TiedWeights, ABiasIsTheOneThatScoresIfTheFileHasTwoThatDiffer) {
  const TiedCase& c = GetParam();
  if (c.further_bias.empty()) return;  // this model has one bias, under one name
  const torch::Tensor before = scores(*load().model);
  const torch::Tensor added = torch::arange(11).to(torch::kFloat);
  add({{c.further_bias, in_file(c.bias) + added}});
  const auto loaded = load();
  EXPECT_NE(loaded.report.text().find("both " + c.further_bias + " and " + c.bias), std::string::npos)
      << loaded.report.text();
  EXPECT_TRUE(torch::allclose(scores(*loaded.model), before + added));
  EXPECT_EQ(tied_tensors_that_differ(folder_.path()), loaded.report.text());
}

INSTANTIATE_TEST_SUITE_P(
    Models, TiedWeights,
    ::testing::Values(TiedCase{"gpt2", saver_of<GPT2LMHeadModelImpl>(small_gpt2()), TextTask::CausalLanguageModel,
                               "transformer.wte.weight", "lm_head.weight", "", ""},
                      TiedCase{"bert", saver_of<BertForMaskedLMImpl>(small_bert()), TextTask::MaskedLanguageModel,
                               "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight",
                               "cls.predictions.bias", "cls.predictions.decoder.bias"},
                      TiedCase{"roberta", saver_of<RobertaForMaskedLMImpl>(small_encoder_with<RobertaConfig>(1)),
                               TextTask::MaskedLanguageModel, "roberta.embeddings.word_embeddings.weight",
                               "lm_head.decoder.weight", "lm_head.bias", "lm_head.decoder.bias"},
                      TiedCase{"distilbert",
                               saver_of<DistilBertForMaskedLMImpl>(small_encoder_with<DistilBertConfig>(0)),
                               TextTask::MaskedLanguageModel, "distilbert.embeddings.word_embeddings.weight",
                               "vocab_projector.weight", "vocab_projector.bias", ""},
                      TiedCase{"electra", saver_of<ElectraForMaskedLMImpl>(small_encoder_with<ElectraConfig>(0)),
                               TextTask::MaskedLanguageModel, "electra.embeddings.word_embeddings.weight",
                               "generator_lm_head.weight", "generator_lm_head.bias", ""},
                      TiedCase{"mpnet", saver_of<MPNetForMaskedLMImpl>(small_encoder_with<MPNetConfig>(1)),
                               TextTask::MaskedLanguageModel, "mpnet.embeddings.word_embeddings.weight",
                               "lm_head.decoder.weight", "lm_head.bias", "lm_head.decoder.bias"}),
    [](const auto& test) { return test.param.name; });

// A file of the base model, whose names lack "transformer.", and a head beside.
TEST(TiedWeightsOfABase, AreFoundWithoutThePrefix) {
  const TemporaryFolder folder;
  GPT2Model(small_gpt2())->save_pretrained(folder.path());
  NamedTensors tensors;
  const WeightFiles files(folder.path());
  for (const std::string& name : files.names()) tensors.emplace_back(name, files.tensor(name).clone());
  const torch::Tensor head = files.tensor("wte.weight") + 1;
  tensors.emplace_back("lm_head.weight", head);
  write_weight_files(folder.path(), tensors);
  const auto loaded = GPT2LMHeadModelImpl::from_pretrained(folder.path());
  EXPECT_NE(loaded.report.text().find("ties lm_head.weight to wte.weight"), std::string::npos) << loaded.report.text();
  EXPECT_TRUE(torch::equal(loaded.model->named_parameters()["lm_head.weight"], head));
}

// Both names are read as "weight": the modern one is used, and the other reported.
TEST(LoadedWeights, ReportATensorWhoseParameterTheFileHasTwice) {
  const TemporaryFolder folder;
  const BertForMaskedLM mlm(small_bert());
  mlm->save_pretrained(folder.path());
  NamedTensors tensors;
  const WeightFiles files(folder.path());
  for (const std::string& name : files.names()) tensors.emplace_back(name, files.tensor(name).clone());
  tensors.emplace_back("bert.embeddings.LayerNorm.gamma", torch::zeros({8}));
  write_weight_files(folder.path(), tensors);
  const auto loaded = BertForMaskedLMImpl::from_pretrained(folder.path());
  EXPECT_EQ(loaded.report.unexpected, std::vector<std::string>{"bert.embeddings.LayerNorm.gamma"});
  EXPECT_TRUE(torch::equal(loaded.model->named_parameters()["bert.embeddings.LayerNorm.weight"],
                           mlm->named_parameters()["bert.embeddings.LayerNorm.weight"]));
}

}  // namespace
}  // namespace lockstep

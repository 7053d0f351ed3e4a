#include "lockstep/models/pretrained.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/detail/safetensors/weight_files.h"
#include "lockstep/models/bert_heads.h"
#include "lockstep/models/convnet.h"
#include "lockstep/models/gpt2.h"
#include "lockstep/models/registry.h"
#include "tests/models/small_models.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using Names = std::vector<std::string>;

// Rewrites the weights in `folder` under the names that `rename` returns; an empty name drops a tensor.
template <typename Rename>
void rewrite_weights(const std::string& folder, const Rename& rename) {
  NamedTensors tensors;
  const WeightFiles files(folder);
  for (const std::string& name : files.names()) {
    if (!rename(name).empty()) tensors.emplace_back(rename(name), files.tensor(name).clone());
  }
  write_weight_files(folder, tensors);
}

void expect_equal(const torch::nn::Module& a, const torch::nn::Module& b) {
  const NamedTensors left = state_of(a), right = state_of(b);
  ASSERT_EQ(left.size(), right.size());
  for (std::size_t i = 0; i < left.size(); ++i) {
    EXPECT_EQ(left[i].first, right[i].first);
    EXPECT_TRUE(torch::equal(left[i].second, right[i].second)) << left[i].first;
  }
}

TEST(Pretrained, EveryModelComesBackEqualFromOneFileAndFromShards) {
  for (const std::uint64_t max_shard_bytes : {kDefaultMaxShardBytes, std::uint64_t{1000}}) {
    const TemporaryFolder folder;
    const BertForSequenceClassification classifier(small_bert());
    classifier->save_pretrained(folder / "a", max_shard_bytes);
    const auto a = BertForSequenceClassificationImpl::from_pretrained(folder / "a");
    EXPECT_EQ(a.report.text(), "");
    expect_equal(*classifier, *a.model);
    const BertForMaskedLM mlm(small_bert());
    mlm->save_pretrained(folder / "b", max_shard_bytes);
    expect_equal(*mlm, *BertForMaskedLMImpl::from_pretrained(folder / "b").model);
    const GPT2LMHeadModel lm(small_gpt2());
    lm->save_pretrained(folder / "c", max_shard_bytes);
    expect_equal(*lm, *GPT2LMHeadModelImpl::from_pretrained(folder / "c").model);
    EXPECT_EQ(std::filesystem::exists(folder / "c/model.safetensors.index.json"), max_shard_bytes == 1000);
  }
}

TEST(Pretrained, UntiedHeadsAreParametersOfTheirOwn) {
  const TemporaryFolder folder;
  GPT2Config config = small_gpt2();
  config.tie_word_embeddings = false;
  const GPT2LMHeadModel lm(config);
  EXPECT_TRUE(lm->named_parameters().contains("lm_head.weight"));
  lm->save_pretrained(folder.path());
  const auto loaded = GPT2LMHeadModelImpl::from_pretrained(folder.path());
  EXPECT_EQ(loaded.report.text(), "");
  expect_equal(*lm, *loaded.model);
  BertConfig bert = small_bert();
  bert.tie_word_embeddings = false;
  EXPECT_TRUE(BertForMaskedLM(bert)->named_parameters().contains("cls.predictions.decoder.weight"));
}

// As in transformers 5: the file has decoder.bias, which scores the words, and bias, which nothing uses.
TEST(Pretrained, AnUntiedDecoderScoresWithItsOwnBias) {
  const TemporaryFolder folder;
  BertConfig config = small_bert();
  config.tie_word_embeddings = false;
  BertForMaskedLM mlm(config);
  mlm->eval();
  const torch::NoGradGuard no_grad;
  TokenInputs inputs;
  inputs.input_ids = torch::tensor({{1, 2, 3}});
  const torch::Tensor before = mlm->forward(inputs);
  const torch::Tensor added = torch::arange(config.vocab_size).to(torch::kFloat);
  mlm->named_parameters()["cls.predictions.decoder.bias"].copy_(added);
  mlm->named_buffers()["cls.predictions.bias"].fill_(100);
  EXPECT_TRUE(torch::allclose(mlm->forward(inputs), before + added));

  mlm->save_pretrained(folder.path());
  const auto loaded = BertForMaskedLMImpl::from_pretrained(folder.path());
  EXPECT_EQ(loaded.report.text(), "");
  expect_equal(*mlm, *loaded.model);
  EXPECT_TRUE(torch::equal(loaded.model->named_buffers()["cls.predictions.bias"],
                           mlm->named_buffers()["cls.predictions.bias"]));
}

// In transformers 4 both names are one tensor, and the file has it once.
TEST(Pretrained, AnUntiedDecoderTakesTheOneBiasOfAnOldFile) {
  for (const std::string left_out : {"cls.predictions.bias", "cls.predictions.decoder.bias"}) {
    const TemporaryFolder folder;
    BertConfig config = small_bert();
    config.tie_word_embeddings = false;
    BertForMaskedLM mlm(config);
    mlm->save_pretrained(folder.path());
    NamedTensors tensors;
    for (const std::string& name : WeightFiles(folder.path()).names()) {
      const torch::Tensor tensor = WeightFiles(folder.path()).tensor(name).clone();
      const bool is_bias = name == "cls.predictions.bias" || name == "cls.predictions.decoder.bias";
      if (name != left_out) tensors.emplace_back(name, is_bias ? torch::full_like(tensor, 3) : tensor);
    }
    write_weight_files(folder.path(), tensors);
    const auto loaded = BertForMaskedLMImpl::from_pretrained(folder.path());
    EXPECT_EQ(loaded.report.text(), "") << left_out;
    EXPECT_TRUE(loaded.model->named_parameters()["cls.predictions.decoder.bias"].eq(3).all().item<bool>()) << left_out;
  }
}

TEST(Pretrained, ListsWhatIsMissingAndWhatIsUnexpected) {
  const TemporaryFolder folder;
  BertForMaskedLM(small_bert())->save_pretrained(folder.path());
  const auto loaded = BertForSequenceClassificationImpl::from_pretrained(folder.path());
  EXPECT_EQ(loaded.report.missing,
            (Names{"bert.pooler.dense.bias", "bert.pooler.dense.weight", "classifier.bias", "classifier.weight"}));
  EXPECT_EQ(loaded.report.unexpected,
            (Names{"cls.predictions.bias", "cls.predictions.transform.LayerNorm.bias",
                   "cls.predictions.transform.LayerNorm.weight", "cls.predictions.transform.dense.bias",
                   "cls.predictions.transform.dense.weight"}));
  EXPECT_TRUE(loaded.report.has_new_weights());
  const std::string text = loaded.report.text();
  EXPECT_NE(
      text.find("Some weights of BertForSequenceClassification were not initialized from the model checkpoint at " +
                folder.path() + " and are newly initialized: ['bert.pooler.dense.bias', "),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("were not used when initializing BertForSequenceClassification: ['cls.predictions.bias', "),
            std::string::npos);
  EXPECT_NE(text.find("You should probably TRAIN this model on a down-stream task"), std::string::npos);
  // The new head has initial values, not whatever memory held.
  const auto parameters = loaded.model->named_parameters();
  EXPECT_TRUE(torch::equal(parameters["classifier.bias"], torch::zeros({2})));
  const double std = parameters["classifier.weight"].std().item<double>();
  EXPECT_GT(std, 0.005);
  EXPECT_LT(std, 0.05);
}

TEST(Pretrained, ListsMismatchedShapesAndTakesThemAnewOnRequest) {
  const TemporaryFolder folder;
  BertForSequenceClassification(small_bert())->save_pretrained(folder.path());
  LoadOptions options;
  options.num_labels = 5;
  try {
    BertForSequenceClassificationImpl::from_pretrained(folder.path(), options);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(error.happened().find("classifier.weight: found shape torch.Size([2, 8]) in the checkpoint and "
                                    "torch.Size([5, 8]) in the model instantiated"),
              std::string::npos)
        << error.what();
    EXPECT_NE(error.happened().find("classifier.bias"), std::string::npos);
  }
  options.ignore_mismatched_sizes = true;
  const auto loaded = BertForSequenceClassificationImpl::from_pretrained(folder.path(), options);
  ASSERT_EQ(loaded.report.mismatched.size(), 2u);
  EXPECT_EQ(loaded.report.mismatched[1].name, "classifier.weight");
  EXPECT_NE(loaded.report.text().find("newly initialized because the shapes did not match"), std::string::npos);
  EXPECT_EQ(loaded.model->config().head.labels.size(), 5u);
}

TEST(Pretrained, HoldsTheTokenizersSizeAgainstTheModelsFirst) {
  const TemporaryFolder folder;
  BertConfig config = small_bert();
  config.vocab_size = 200;
  BertForSequenceClassification(config)->save_pretrained(folder.path());
  const auto report = [&](std::int64_t tokenizer_size) {
    LoadOptions options;
    options.tokenizer_size = tokenizer_size;
    return BertForSequenceClassificationImpl::from_pretrained(folder.path(), options).report.text();
  };
  EXPECT_EQ(report(0), "");
  EXPECT_EQ(report(200), "");
  EXPECT_EQ(report(73), "");  // the table was rounded up
  EXPECT_NE(report(72).find("The tokenizer has 72 entries, but the model at " + folder.path() + " has 200"),
            std::string::npos);
  // The error is raised before the weights are read.
  std::filesystem::remove(folder / "model.safetensors");
  try {
    report(201);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.happened(), "the tokenizer has 201 entries, but the model has 200");
    EXPECT_EQ(error.where(), folder.path() + ", config.json, field \"vocab_size\"");
  }
}

TEST(Pretrained, AddsAndRemovesTheBaseModelsPrefix) {
  const TemporaryFolder folder;
  const BertModel base(small_bert());
  base->save_pretrained(folder / "base");
  EXPECT_TRUE(WeightFiles(folder / "base").contains("embeddings.word_embeddings.weight"));
  const auto with_head = BertForSequenceClassificationImpl::from_pretrained(folder / "base");
  EXPECT_EQ(with_head.report.missing, (Names{"classifier.bias", "classifier.weight"}));
  EXPECT_TRUE(with_head.report.unexpected.empty());
  with_head.model->save_pretrained(folder / "head");
  const auto again = BertModelImpl::from_pretrained(folder / "head");
  EXPECT_TRUE(again.report.missing.empty());
  EXPECT_EQ(again.report.unexpected, (Names{"classifier.bias", "classifier.weight"}));
  expect_equal(*base, *again.model);
  const GPT2Model decoder(small_gpt2());
  decoder->save_pretrained(folder / "gpt2");
  const auto lm = GPT2LMHeadModelImpl::from_pretrained(folder / "gpt2");
  EXPECT_EQ(lm.report.text(), "");
  EXPECT_TRUE(torch::equal(lm.model->named_parameters()["transformer.h.1.mlp.c_fc.weight"],
                           decoder->named_parameters()["h.1.mlp.c_fc.weight"]));
}

TEST(Pretrained, ReadsOldNamesAndPassesOverTables) {
  const TemporaryFolder folder;
  const BertForMaskedLM mlm(small_bert());
  mlm->save_pretrained(folder.path());
  rewrite_weights(folder.path(), [](std::string name) {
    for (const auto& [now, then] :
         {std::pair("LayerNorm.weight", "LayerNorm.gamma"), {"LayerNorm.bias", "LayerNorm.beta"}}) {
      const std::size_t at = name.find(now);
      if (at != std::string::npos) name.replace(at, std::string(now).size(), then);
    }
    return name;
  });
  NamedTensors tensors;
  for (const std::string& name : WeightFiles(folder.path()).names()) {
    tensors.emplace_back(name, WeightFiles(folder.path()).tensor(name).clone());
  }
  tensors.emplace_back("bert.embeddings.position_ids", torch::arange(6).unsqueeze(0));
  tensors.emplace_back("bert.pooler.dense.weight", torch::zeros({8, 8}));
  tensors.emplace_back("cls.predictions.decoder.weight", state_of(*mlm).front().second);  // tied, and equal
  write_weight_files(folder.path(), tensors);
  const auto loaded = BertForMaskedLMImpl::from_pretrained(folder.path());
  EXPECT_EQ(loaded.report.text(), "");
  expect_equal(*mlm, *loaded.model);
}

// A file may hold a name of any length: looking at it must not use up the stack.
TEST(Pretrained, TakesGpt2sTablesAndNamesOfAMegabyteForWhatTheyAre) {
  const TemporaryFolder folder;
  const GPT2LMHeadModel lm(small_gpt2());
  lm->save_pretrained(folder.path());
  const std::string digits(std::size_t{1} << 20, '7');
  NamedTensors tensors;
  for (const std::string& name : WeightFiles(folder.path()).names()) {
    tensors.emplace_back(name, WeightFiles(folder.path()).tensor(name).clone());
  }
  const Names tables{"transformer.h.0.attn.bias", "h.1.attn.masked_bias", "transformer.h." + digits + ".attn.bias"};
  const Names others{"transformer.h." + digits + ".attn.biases", "transformer.h." + digits, "transformer.h.attn.bias"};
  for (const Names& names : {tables, others}) {
    for (const std::string& name : names) tensors.emplace_back(name, torch::zeros({1}));
  }
  write_weight_files(folder.path(), tensors);
  const auto loaded = GPT2LMHeadModelImpl::from_pretrained(folder.path());
  expect_equal(*lm, *loaded.model);
  const Names& unexpected = loaded.report.unexpected;
  EXPECT_EQ(unexpected.size(), others.size());
  for (const std::string& name : others) {
    EXPECT_EQ(std::count(unexpected.begin(), unexpected.end(), name), 1) << name.substr(0, 40);
  }
}

TEST(Pretrained, FindsATiedWeightUnderItsOtherName) {
  const TemporaryFolder folder;
  const GPT2LMHeadModel lm(small_gpt2());
  lm->save_pretrained(folder.path());
  rewrite_weights(folder.path(), [](const std::string& name) {
    return name == "transformer.wte.weight" ? std::string("lm_head.weight") : name;
  });
  const auto loaded = GPT2LMHeadModelImpl::from_pretrained(folder.path());
  EXPECT_EQ(loaded.report.text(), "");
  expect_equal(*lm, *loaded.model);
}

TEST(Pretrained, ConvertsHalfPrecisionFiles) {
  const TemporaryFolder folder;
  BertForSequenceClassification model(small_bert());
  model->to(torch::kBFloat16);
  model->save_pretrained(folder.path());
  const auto loaded = BertForSequenceClassificationImpl::from_pretrained(folder.path());
  for (const auto& parameter : loaded.model->named_parameters()) {
    EXPECT_EQ(parameter.value().scalar_type(), torch::kFloat);
    EXPECT_TRUE(torch::equal(parameter.value(), model->named_parameters()[parameter.key()].to(torch::kFloat)));
  }
}

TEST(Pretrained, ASmallerSaveLeavesNoOldShards) {
  const TemporaryFolder folder;
  const BertForMaskedLM model(small_bert());
  model->save_pretrained(folder.path(), 1000);
  write_file_atomically(folder / "model-of-mine.txt", "kept");
  model->save_pretrained(folder.path());
  Names files;
  for (const auto& item : std::filesystem::directory_iterator(folder.path())) files.push_back(item.path().filename());
  std::sort(files.begin(), files.end());
  EXPECT_EQ(files, (Names{"config.json", "model-of-mine.txt", "model.safetensors"}));
  model->save_pretrained(folder.path(), 1000);
  EXPECT_FALSE(std::filesystem::exists(folder / "model.safetensors"));
  expect_equal(*model, *BertForMaskedLMImpl::from_pretrained(folder.path()).model);
}

TEST(Pretrained, SavesModelsWithoutAConfiguration) {
  const TemporaryFolder folder;
  ConvNet net, other;
  net->forward(torch::rand({4, 1, 28, 28}));  // changes the statistics of batch norm
  save_model(*net, folder.path());
  WeightRules rules;
  rules.architecture = "ConvNet";
  EXPECT_EQ(load_weights(*other, rules, folder.path()).text(), "");
  expect_equal(*net, *other);
}

}  // namespace
}  // namespace lockstep

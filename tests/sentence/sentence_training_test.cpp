// Vectors of texts: poolings, losses and their gradients as sentence-transformers computes them (see
// tests/models/make_fixtures.py), and the same over any number of ranks.
#include "lockstep/sentence/sentence_training.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lockstep/base/files/atomic_file.h"
#include "lockstep/comm/spawn.h"
#include "lockstep/data/dataset.h"
#include "lockstep/safetensors/safetensors.h"
#include "lockstep/sentence/contrastive_loss.h"
#include "lockstep/sentence/sentence_dataset.h"
#include "lockstep/sentence/sentence_encoder.h"
#include "lockstep/train/trainer.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

std::string sentence_fixture(const std::string& name) {
  return LOCKSTEP_SOURCE_DIR "/tests/models/fixtures/sentence-" + name;
}

double largest_gap(const at::Tensor& got, const at::Tensor& want) {
  return (got - want).abs().max().item<double>() / std::max(1e-2, want.abs().max().item<double>());
}

class SentenceTransformers : public ::testing::TestWithParam<const char*> {};

TEST_P(SentenceTransformers, HaveTheSameVectorsLossAndGradients) {
  const std::string folder = sentence_fixture(GetParam());
  const auto encoder = SentenceEncoderImpl::from_pretrained(folder).model;
  encoder->eval();
  const SafetensorsFile expected(folder + "/case-padded.safetensors");
  Batch batch;
  for (const SafetensorsEntry& entry : expected.entries()) {
    if (entry.name.rfind("input.", 0) == 0) batch[entry.name.substr(6)] = expected.tensor(entry.name);
  }
  EXPECT_LT(largest_gap(encoder->forward(batch), expected.tensor("output")), 1e-5);
  // The gradients in fp64: that of the keys' biases is 0, so in fp32 two programs would compare their rounding errors.
  encoder->to(torch::kDouble);
  const at::Tensor vectors = encoder->forward(batch);
  batch["texts"] = torch::arange(vectors.size(0) * 3).view({-1, 3});
  const LossSum loss = sentence_loss(vectors, batch, {});
  EXPECT_NEAR(loss.mean().item<double>(), expected.tensor("loss").item<double>(), 1e-5);
  loss.mean().backward();
  int compared = 0;
  for (const auto& parameter : encoder->named_parameters()) {
    if (!parameter.value().requires_grad()) continue;  // the pooler
    ++compared;
    EXPECT_LT(largest_gap(parameter.value().grad(), expected.tensor("grad." + parameter.key())), 3e-5)
        << parameter.key();
  }
  EXPECT_GT(compared, 30);
}
INSTANTIATE_TEST_SUITE_P(Poolings, SentenceTransformers, ::testing::Values("bert-cls", "distilbert-max", "mpnet-mean"));

TEST(SentenceEncoder, WritesTheFolderThatItReads) {
  const TemporaryFolder folder;
  const auto loaded = SentenceEncoderImpl::from_pretrained(sentence_fixture("mpnet-mean"));
  EXPECT_TRUE(loaded.report.text().empty()) << loaded.report.text();
  SentenceLayout layout = loaded.model->layout();
  EXPECT_TRUE(layout.normalizes);
  layout.max_seq_length = 12;
  loaded.model->set_layout(layout);
  for (const auto& [name, bytes] : loaded.model->files()) {
    const std::filesystem::path path = std::filesystem::path(folder.path()) / name;
    std::filesystem::create_directories(path.parent_path());
    write_file_atomically(path, bytes);
  }
  write_safetensors(folder / "model.safetensors", state_of(*loaded.model));
  const auto again = SentenceEncoderImpl::from_pretrained(folder.path()).model;
  EXPECT_EQ(again->layout().pooling, Pooling::Mean);
  EXPECT_TRUE(again->layout().normalizes);
  EXPECT_EQ(again->layout().max_seq_length, 12);
  EXPECT_TRUE(is_sentence_folder(folder.path()));
  const SafetensorsFile before(sentence_fixture("mpnet-mean") + "/model.safetensors");
  const SafetensorsFile after(folder / "model.safetensors");
  ASSERT_EQ(before.entries().size(), after.entries().size());
  for (const SafetensorsEntry& entry : before.entries()) {
    EXPECT_TRUE(before.tensor(entry.name).equal(after.tensor(entry.name))) << entry.name;
  }
}

TEST(SentenceEncoder, RefusesModulesThatItLacks) {
  const TemporaryFolder folder;
  std::filesystem::copy(sentence_fixture("bert-cls"), folder.path(), std::filesystem::copy_options::recursive);
  const std::string modules = read_file(folder / "modules.json");
  const auto refuses = [&](const std::string& text) {
    expect_error(text, [&] { SentenceEncoderImpl::from_pretrained(folder.path()); });
  };
  write_file_atomically(folder / "1_Pooling/config.json", R"({"pooling_mode": "lasttoken"})");
  refuses("pooling by \"lasttoken\" is not supported");
  write_file_atomically(folder / "1_Pooling/config.json",
                        R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true})");
  refuses("cls_token and mean_tokens together");
  write_file_atomically(folder / "modules.json",
                        R"([{"path": "", "type": "a.Transformer"}, {"path": "2_Dense", "type": "a.Dense"}])");
  refuses("the module a.Dense");
  write_file_atomically(folder / "modules.json", R"([{"path": "../x", "type": "a.Pooling"}])");
  refuses("leaves the folder");
  write_file_atomically(folder / "modules.json", R"([{"path": "", "type": "a.Transformer"}])");
  refuses("no module that pools");
  write_file_atomically(folder / "modules.json", "{");
  refuses("not a JSON list");
}

// Sums in double, anchor by anchor.
double contrast_by_hand(const at::Tensor& vectors, const at::Tensor& texts) {
  const at::Tensor units = vectors / vectors.norm(2, {-1}, true);
  double sum = 0;
  for (std::int64_t i = 0; i < units.size(0); ++i) {
    double all = 0, own = 0;
    for (std::int64_t j = 0; j < units.size(0); ++j) {
      for (std::int64_t c = 1; c < units.size(1); ++c) {
        const bool is_own = i == j && c == 1;
        const auto text = texts[j][c].item<std::int64_t>();
        const bool is_equal = text == texts[i][0].item<std::int64_t>() || text == texts[i][1].item<std::int64_t>() ||
                              (c == 1 && texts[j][0].item<std::int64_t>() == texts[i][0].item<std::int64_t>());
        if (is_equal && !is_own) continue;
        const double power = std::exp(20 * units[i][0].dot(units[j][c]).item<double>());
        all += power;
        if (is_own) own = power;
      }
    }
    sum += std::log(all / own);
  }
  return sum;
}

TEST(ContrastiveLoss, TakesEqualTextsForNobodysNegatives) {
  torch::manual_seed(1);
  const at::Tensor vectors = torch::randn({5, 3, 8}, torch::kDouble);
  const at::Tensor different = torch::arange(15).view({5, 3});
  at::Tensor texts = different.clone();
  texts[1][0] = texts[0][0];  // one anchor with two positives
  texts[3][1] = texts[2][1];  // two anchors with one positive
  texts[4][2] = texts[0][1];  // somebody's negative is another one's positive
  texts[2][2] = texts[4][0];
  const double plain = contrastive_loss(vectors, {}).sum.item<double>();
  EXPECT_NEAR(plain, contrast_by_hand(vectors, different), 1e-9);
  EXPECT_NEAR(contrastive_loss(vectors, different).sum.item<double>(), plain, 1e-12);
  const double without_equals = contrastive_loss(vectors, texts).sum.item<double>();
  EXPECT_NEAR(without_equals, contrast_by_hand(vectors, texts), 1e-9);
  EXPECT_LT(without_equals, plain - 1e-3);
}

class ContrastiveRanks : public ::testing::TestWithParam<std::vector<std::int64_t>> {};

TEST_P(ContrastiveRanks, HaveTheGradientOfOneProcess) {
  const std::vector<std::int64_t> rows = GetParam();
  torch::manual_seed(2);
  std::int64_t count = 0;
  for (const std::int64_t of_rank : rows) count += of_rank;
  const at::Tensor whole = torch::randn({count, 3, 8}, torch::kDouble).requires_grad_(true);
  at::Tensor texts = torch::arange(count * 3).view({count, 3});
  texts[count - 1][1] = texts[0][1];  // equal texts on different ranks
  const LossSum expected = contrastive_loss(whole, texts);
  expected.sum.backward();
  spawn_threads(static_cast<int>(rows.size()), [&](const std::shared_ptr<Communicator>& group) {
    std::int64_t first = 0;
    for (int rank = 0; rank < group->rank(); ++rank) first += rows[static_cast<std::size_t>(rank)];
    const std::int64_t own = rows[static_cast<std::size_t>(group->rank())];
    const at::Tensor part = whole.detach().narrow(0, first, own).clone().requires_grad_(true);
    ContrastiveLossOptions options;
    options.process_group = group;
    const LossSum loss = contrastive_loss(part, texts.narrow(0, first, own), options);
    loss.sum.backward();
    EXPECT_EQ(loss.count.item<std::int64_t>(), own);
    EXPECT_TRUE(part.grad().allclose(whole.grad().narrow(0, first, own), 1e-12, 1e-12));
    at::Tensor total = loss.sum.detach().clone();
    group->all_reduce(total);
    EXPECT_NEAR(total.item<double>(), expected.sum.item<double>(), 1e-9);
  });
}
INSTANTIATE_TEST_SUITE_P(Rows, ContrastiveRanks,
                         ::testing::Values(std::vector<std::int64_t>{3, 3}, std::vector<std::int64_t>{4, 1, 2},
                                           std::vector<std::int64_t>{2, 0, 5}));

// Rows of two texts of random tokens, as a tokenizer would make them.
class RandomSentences : public Dataset {
 public:
  explicit RandomSentences(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }

 private:
  Example do_get(std::int64_t index) const override {
    Example example;
    for (std::size_t text = 0; text < 2; ++text) {
      const std::int64_t tokens = 3 + (index + static_cast<std::int64_t>(text)) % 4;
      example["input_ids_" + std::to_string(text)] =
          (torch::arange(tokens) * (index * 2 + static_cast<std::int64_t>(text) + 3)).remainder(38) + 2;
    }
    example["texts"] = torch::arange(2) + 2 * index;
    return example;
  }

  std::int64_t size_;
};

Batch collated(std::vector<Example> examples) {
  Batch batch;
  for (const char* name : {"input_ids_0", "input_ids_1"}) {
    std::vector<at::Tensor> rows, masks;
    for (Example& example : examples) {
      const at::Tensor ids = example.at(name);
      rows.push_back(torch::constant_pad_nd(ids, {0, 8 - ids.numel()}, 1));
      masks.push_back(torch::constant_pad_nd(torch::ones_like(ids), {0, 8 - ids.numel()}, 0));
      example.erase(name);
    }
    batch[name] = torch::stack(rows);
    batch["attention_mask" + std::string(name).substr(9)] = torch::stack(masks);
  }
  batch.merge(stack_examples(examples));
  batch["labels"] = batch["texts"];
  return batch;
}

// The encoder of a fixture without dropout, so that trainings differ by the rounding of sums alone.
std::shared_ptr<SentenceEncoderImpl> encoder_without_dropout() {
  const TemporaryFolder folder;
  std::filesystem::copy(sentence_fixture("mpnet-mean"), folder.path(), std::filesystem::copy_options::recursive);
  auto config = nlohmann::json::parse(read_file(folder / "config.json"));
  config["hidden_dropout_prob"] = 0;
  config["attention_probs_dropout_prob"] = 0;
  write_file_atomically(folder / "config.json", config.dump());
  return SentenceEncoderImpl::from_pretrained(folder.path()).model;
}

// 22 pairs in global batches of 12: of the last update, the last ranks have fewer samples than the first, or none.
NamedTensors trained_by(int ranks, bool fuse) {
  NamedTensors weights;
  const auto train = [&](const std::shared_ptr<Communicator>& group, int rank) {
    const TemporaryFolder folder;
    const auto encoder = encoder_without_dropout();
    SentenceLossOptions learning;
    learning.process_group = group;
    TrainerOptions options;
    options.model = adapt_sentence_encoder(encoder, learning);
    options.train_dataset = std::make_shared<RandomSentences>(22);
    options.data_collator = collated;
    options.process_group = group;
    options.print = nullptr;
    options.args.output_dir = folder.path();
    options.args.optim = "sgd";
    options.args.learning_rate = 0.1;
    options.args.num_train_epochs = 2;
    options.args.per_device_train_batch_size = 12 / ranks;
    options.args.save_strategy = "no";
    options.args.fuse = fuse;
    Trainer(options).train();
    if (rank == 0) weights = state_of(*encoder);
  };
  if (ranks == 1) {
    train(nullptr, 0);
  } else {
    spawn_threads(ranks, [&](const std::shared_ptr<Communicator>& group) { train(group, group->rank()); });
  }
  return weights;
}

TEST(SentenceTraining, EqualsThatOfOneProcessOnAnyNumberOfRanks) {
  const NamedTensors expected = trained_by(1, true);
  for (const int ranks : {2, 3, 4}) {
    for (const bool fuse : {true, false}) {
      const NamedTensors weights = trained_by(ranks, fuse);
      ASSERT_EQ(weights.size(), expected.size());
      for (std::size_t i = 0; i < weights.size(); ++i) {
        EXPECT_TRUE(weights[i].second.allclose(expected[i].second, 1e-4, 2e-5))
            << ranks << " ranks, fused " << fuse << ", " << weights[i].first << ": "
            << (weights[i].second - expected[i].second).abs().max().item<double>();
      }
    }
  }
}

TEST(SentenceTraining, TakesNoReplicasThatWouldSeePartsOfABatch) {
  const TemporaryFolder folder;
  TrainerOptions options;
  options.model = adapt_sentence_encoder(SentenceEncoderImpl::from_pretrained(sentence_fixture("mpnet-mean")).model);
  options.train_dataset = std::make_shared<RandomSentences>(8);
  options.data_collator = collated;
  options.args.output_dir = folder.path();
  options.args.replicas = 2;
  expect_error("whose loss compares the samples of a batch", [&] { Trainer(options).train(); });
}

TEST(RetrievalMetrics, CountWhereEachPositiveStands) {
  // Anchors and positives on a circle: the nearest of each are known.
  const at::Tensor angles = torch::tensor({{0.0, 0.1}, {1.0, 1.3}, {2.0, 1.2}, {3.0, 3.05}}, torch::kDouble);
  const at::Tensor vectors = torch::stack({angles.cos(), angles.sin()}, 2);
  EvalPrediction evaluation;
  evaluation.predictions = vectors;
  evaluation.label_ids = torch::arange(8).view({4, 2});
  Metrics metrics = retrieval_metrics()(evaluation);
  // Anchor 1 has the third positive 0.2 away and its own 0.3; anchor 2 has the second positive nearer than its own.
  EXPECT_NEAR(metrics.at("cosine_accuracy@1"), 0.5, 1e-12);
  EXPECT_NEAR(metrics.at("cosine_accuracy@10"), 1, 1e-12);
  EXPECT_NEAR(metrics.at("cosine_mrr@10"), (1 + 0.5 + 0.5 + 1) / 4, 1e-12);
  EXPECT_NEAR(metrics.at("loss"), contrast_by_hand(vectors, evaluation.label_ids) / 4, 1e-9);
}

TEST(SimilarityMetrics, AreCorrelationsOfCosines) {
  const at::Tensor angles = torch::tensor({{0.0, 0.1}, {0.0, 0.5}, {0.0, 1.5}}, torch::kDouble);
  EvalPrediction evaluation;
  evaluation.predictions = torch::stack({angles.cos(), angles.sin()}, 2);
  evaluation.label_ids = torch::tensor({1.0, 0.8, 0.1}, torch::kDouble);
  const Metrics metrics = similarity_metrics()(evaluation);
  EXPECT_NEAR(metrics.at("spearman_cosine"), 1, 1e-12);
  EXPECT_NEAR(metrics.at("pearson_cosine"),
              pearson_correlation(torch::tensor({std::cos(0.1), std::cos(0.5), std::cos(1.5)}, torch::kDouble),
                                  evaluation.label_ids),
              1e-12);
}

}  // namespace
}  // namespace lockstep

#include "lockstep/replicas/parallel_loss.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/models/registry.h"
#include "lockstep/replicas/parallel_inference.h"
#include "tests/replicas/replica_fixtures.h"

namespace lockstep {
namespace {

using replica_tests::contains;
using replica_tests::cpu_devices;
using replica_tests::forget_gradients;
using replica_tests::gradients_of;
using replica_tests::largest_difference;
using replica_tests::text_of_error;

const auto loss_of_model = [](auto& model, const auto& batch) { return model->loss(model->forward(batch), batch); };

struct LossModel {
  const char* name;
  std::int64_t batch;
  at::ScalarType dtype;
  double tolerance;
  friend std::ostream& operator<<(std::ostream& out, const LossModel& model) {
    return out << model.name << model.batch;
  }
};
class ParallelLossOfModels : public ::testing::TestWithParam<std::tuple<LossModel, int>> {};

TEST_P(ParallelLossOfModels, EqualsOneDevice) {
  const auto [choice, replicas] = GetParam();
  torch::manual_seed(3);
  const auto model = make_model(choice.name);
  model->to(choice.dtype);
  model->eval();  // without dropout
  RandomBatchOptions options;
  options.size = choice.batch;
  options.sequence_length = model->input_kind() == InputKind::Text ? 16 : 0;
  options.mixed_lengths = model->input_kind() == InputKind::Text;
  Batch batch = model->random_batch(options);
  for (auto& [name, tensor] : batch) {
    if (tensor.is_floating_point()) tensor = tensor.to(choice.dtype);
  }
  const at::Tensor want_loss = model->loss(model->forward(batch), batch).mean();
  want_loss.backward();
  const auto want = gradients_of(*model);
  forget_gradients(*model);

  DataParallel dp(model, cpu_devices(replicas));
  const ReplicaLosses losses = parallel_loss(dp, loss_of_model, batch);
  losses.mean().backward();
  EXPECT_NEAR(losses.mean().item<double>(), want_loss.item<double>(), choice.tolerance);
  EXPECT_LT(largest_difference(gradients_of(*model), want), choice.tolerance);

  // It differs from the mean of the replicas' means.
  if (losses.counts().numel() > 1 && !losses.counts().eq(losses.counts()[0]).all().item<bool>()) {
    EXPECT_GT(std::abs(losses.per_replica().mean().item<double>() - want_loss.item<double>()), 1e-9);
  }
}
INSTANTIATE_TEST_SUITE_P(Table, ParallelLossOfModels,
                         ::testing::Combine(::testing::Values(LossModel{"mlp", 7, at::kDouble, 1e-12},
                                                              LossModel{"mlp", 7, at::kFloat, 1e-6},
                                                              LossModel{"bert-tiny", 5, at::kDouble, 1e-12},
                                                              LossModel{"bert-tiny", 5, at::kFloat, 1e-6}),
                                            ::testing::Values(1, 2, 3)));

// Dropout: manual_seed determines the replicas' draws, in whichever order they run, and the draws differ between
// replicas.
TEST(ParallelLoss, DropoutRepeatsAndDiffersBetweenReplicas) {
  ModelOptions options;
  options.dropout = 0.5;
  torch::manual_seed(3);
  const auto model = make_model("bert-tiny", options);
  model->train();
  RandomBatchOptions shape;
  shape.size = 2;
  shape.sequence_length = 8;
  Batch batch = model->random_batch(shape);
  for (auto& [name, tensor] : batch) tensor = tensor.slice(0, 0, 1).repeat_interleave(2, 0);  // the same sample twice
  DataParallel dp(model, cpu_devices(2));
  const auto losses_for = [&](std::uint64_t seed) {
    torch::manual_seed(seed);
    return parallel_loss(dp, loss_of_model, batch).sums().detach();
  };
  const at::Tensor first = losses_for(1);
  EXPECT_NE(first[0].item<float>(), first[1].item<float>());
  for (int round = 0; round < 10; ++round) EXPECT_TRUE(losses_for(1).equal(first));
  EXPECT_FALSE(losses_for(2).equal(first));
}

TEST(ParallelLoss, RecomputedActivationsDropTheSame) {
  ModelOptions options;
  options.dropout = 0.5;
  const auto gradients = [&](bool checkpointing) {
    options.gradient_checkpointing = checkpointing;
    torch::manual_seed(3);
    const auto model = make_model("bert-tiny", options);
    model->train();
    RandomBatchOptions shape;
    shape.size = 4;
    shape.sequence_length = 8;
    const Batch batch = model->random_batch(shape);
    DataParallel dp(model, cpu_devices(2));
    torch::manual_seed(4);
    parallel_loss(dp, loss_of_model, batch).mean().backward();
    return gradients_of(*model);
  };
  EXPECT_LT(largest_difference(gradients(true), gradients(false)), 1e-6);
}

// A module that returns the mean loss of its chunk, as Hugging Face's models do.
struct OwnMeanLossImpl : torch::nn::Cloneable<OwnMeanLossImpl> {
  OwnMeanLossImpl() { reset(); }
  void reset() override { weight = register_parameter("weight", torch::full({}, 3.0, torch::kDouble)); }
  at::Tensor forward(const at::Tensor& x) { return (x * weight).pow(2).mean(); }
  at::Tensor weight;
};
TORCH_MODULE(OwnMeanLoss);

// By hand: x = 1, 2, 3, 4, 5 and w = 3. Σ(xw)² / 5 = 9 * 55 / 5 = 99, with gradient 2 * 3 * 55 / 5 = 66. Chunks of 2, 2
// and 1 have means 22.5, 112.5 and 225, whose mean is 120.
class OwnLoss : public ::testing::TestWithParam<int> {};

TEST_P(OwnLoss, IsTheBatchsWhateverTheChunks) {
  OwnMeanLoss model;
  DataParallel dp(model, cpu_devices(GetParam()));
  const at::Tensor x = torch::arange(1, 6, torch::kDouble);
  testing::internal::CaptureStderr();
  const ReplicaLosses losses = parallel_loss(dp, own_loss, x);
  losses.mean().backward();
  EXPECT_DOUBLE_EQ(losses.mean().item<double>(), 99);
  EXPECT_DOUBLE_EQ(losses.counts().sum().item<double>(), 5);
  EXPECT_NEAR(model->weight.grad().item<double>(), 66, 1e-12);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}
INSTANTIATE_TEST_SUITE_P(Replicas, OwnLoss, ::testing::Values(1, 2, 3, 5));

TEST(OwnLossOfScript, IsTheBatchsWhateverTheChunks) {
  torch::jit::Module model("OwnLoss");
  model.register_parameter("weight", torch::full({}, 3.0, torch::kDouble), false);
  model.define("def forward(self, x):\n    return ((x * self.weight) ** 2).mean()\n");
  DataParallel dp(model, cpu_devices(2));
  EXPECT_DOUBLE_EQ(parallel_loss(dp, own_loss, torch::arange(1, 6, torch::kDouble)).mean().item<double>(), 99);
}

// The line of a program that ports Python's `model(inputs).mean()`.
TEST(LossHint, NamesTheExactLineOnceWhereChunksAreUnequal) {
  OwnMeanLoss model;
  DataParallel dp(model, cpu_devices(3));
  const at::Tensor x = torch::arange(1, 6, torch::kDouble);
  const auto words_of = [&](auto&& body) {
    testing::internal::CaptureStderr();
    body();
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(words_of([&] { dp(torch::arange(1, 7, torch::kDouble)).mean().backward(); }), "") << "equal chunks";
  EXPECT_EQ(words_of([&] {
              const torch::NoGradGuard no_grad;
              dp(x).mean();
            }),
            "")
      << "no gradient: perhaps a count";
  const std::string said = words_of([&] { EXPECT_DOUBLE_EQ(dp(x).mean().item<double>(), 120); });
  EXPECT_TRUE(contains(said, "chunks of 2, 2, 1 samples")) << said;
  EXPECT_TRUE(contains(said, "lockstep::parallel_loss(dp, lockstep::own_loss, inputs...).mean()")) << said;
  EXPECT_EQ(words_of([&] { dp(x).mean(); }), "") << "once";
  const std::string again = words_of([&] {
    for (int i = 0; i < 3; ++i) data_parallel(model, cpu_devices(3), x);
  });
  EXPECT_TRUE(contains(again, "chunks of 2, 2, 1 samples")) << again;
  EXPECT_EQ(again.find("chunks of"), again.rfind("chunks of")) << "once, though each call has an object of its own";
}

TEST(LossHint, AloneWhereLossesDoNotSayWhatTheyCount) {
  const auto model = make_model("mlp");
  RandomBatchOptions shape;
  shape.size = 7;
  const Batch batch = model->random_batch(shape);
  const double want = model->loss(model->forward(batch), batch).mean().item<double>();
  DataParallel dp(model, cpu_devices(2));
  testing::internal::CaptureStderr();
  const auto [loss, scores] = dp.apply(
      [](auto& replica, const Batch& chunk) {
        const at::Tensor output = replica->forward(chunk);
        return std::make_tuple(replica->loss(output, chunk), output);
      },
      batch);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(loss.sum.sizes(), (std::vector<std::int64_t>{2})) << "of each replica";
  EXPECT_EQ(scores.size(0), 7);
  EXPECT_NEAR(loss.mean().template item<double>(), want, 1e-6);
}

TEST(ParallelLoss, CannotCountTheSamplesOfAMeanWithoutATensor) {
  OwnMeanLoss model;
  DataParallel dp(model, cpu_devices(2));
  const auto mean = [](auto& replica, double) { return replica->weight * 1; };
  EXPECT_TRUE(contains(text_of_error([&] { parallel_loss(dp, mean, 1.0); }), "return a struct with sum and count"));
}

TEST(ParallelLoss, RefusesALossThatIsNotOneNumber) {
  const auto model = make_model("mlp");
  DataParallel dp(model, cpu_devices(2));
  RandomBatchOptions shape;
  shape.size = 4;
  const Batch batch = model->random_batch(shape);
  const auto scores = [](auto& replica, const auto& chunk) {
    return LossSum{replica->forward(chunk), torch::tensor(std::int64_t{2})};
  };
  EXPECT_TRUE(contains(text_of_error([&] { parallel_loss(dp, scores, batch); }), "not one number"));
}

TEST(ParallelEvaluate, GivesResultsInTheOrderOfTheBatches) {
  const auto model = make_model("mlp");
  model->train();
  DataParallel dp(model, cpu_devices(3));
  std::vector<Batch> batches;
  for (int i = 0; i < 50; ++i) {
    RandomBatchOptions shape;
    shape.size = 1 + i % 7;
    shape.seed = static_cast<std::uint64_t>(i);
    batches.push_back(model->random_batch(shape));
  }
  const auto results = parallel_evaluate(dp, batches, [](auto& replica, const Batch& batch) {
    EXPECT_FALSE(replica->is_training());
    return replica->forward(batch);
  });
  EXPECT_TRUE(model->is_training());
  model->eval();
  ASSERT_EQ(results.size(), batches.size());
  for (std::size_t i = 0; i < batches.size(); ++i) {
    EXPECT_FALSE(results[i].requires_grad());
    EXPECT_TRUE(results[i].equal(model->forward(batches[i])));
  }
}

TEST(ParallelEvaluate, EndsWithTheErrorOfAReplica) {
  const auto model = make_model("mlp");
  DataParallel dp(model, cpu_devices(2));
  const std::vector<Batch> batches(20);  // without "features"
  const std::string text = text_of_error(
      [&] { parallel_evaluate(dp, batches, [](auto& replica, const Batch& b) { return replica->forward(b); }); });
  EXPECT_TRUE(contains(text, "the batch has no")) << text;
  EXPECT_TRUE(contains(text, "in replica")) << text;
}

}  // namespace
}  // namespace lockstep

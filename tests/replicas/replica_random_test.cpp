// Tests the replicas' random numbers: they differ between replicas, and repeat after torch::manual_seed in any order of
// running.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <tuple>

#include "lockstep/replicas/data_parallel.h"
#include "tests/replicas/replica_fixtures.h"

namespace lockstep {
namespace {

using replica_tests::cpu_devices;

struct DrawsImpl : torch::nn::Cloneable<DrawsImpl> {
  void reset() override {}
  std::tuple<at::Tensor, at::Tensor, at::Tensor> forward(const at::Tensor& x) {
    return {torch::dropout(x, 0.5, true), torch::rand({x.size(0), 8}), torch::randn({x.size(0), 8}).normal_() + x};
  }
};
TORCH_MODULE(Draws);

TEST(ReplicaRandom, RepeatsAndDiffersBetweenReplicas) {
  Draws model;
  DataParallel dp(model, cpu_devices(2));
  const at::Tensor x = torch::ones({8, 8});
  const auto draw = [&](std::uint64_t seed) {
    torch::manual_seed(seed);
    const auto [dropped, uniform, normal] = dp(x);
    return torch::cat({dropped, uniform, normal}, 1);
  };
  const at::Tensor first = draw(1);
  for (int round = 0; round < 20; ++round) EXPECT_TRUE(draw(1).equal(first));
  for (int part = 0; part < 3; ++part) {
    const at::Tensor columns = first.slice(1, 8 * part, 8 * part + 8);
    EXPECT_FALSE(columns.slice(0, 0, 4).equal(columns.slice(0, 4, 8))) << part;
  }
  EXPECT_FALSE(draw(2).equal(first));
  EXPECT_FALSE(std::get<1>(dp(x)).equal(std::get<1>(dp(x))));  // two steps differ
}

// A decoder that samples, or dropout that stays on: evaluation may draw too.
TEST(ReplicaRandom, RepeatsInEvaluation) {
  Draws model;
  model->eval();
  DataParallel dp(model, cpu_devices(2));
  const at::Tensor x = torch::ones({64, 8});
  const auto draw = [&](std::uint64_t seed) {
    torch::manual_seed(seed);
    return std::get<2>(dp(x));
  };
  const at::Tensor first = draw(1);
  for (int round = 0; round < 50; ++round) EXPECT_TRUE(draw(1).equal(first));
  EXPECT_FALSE(draw(2).equal(first));
  EXPECT_FALSE(std::get<2>(dp(x)).equal(std::get<2>(dp(x))));
}

TEST(ReplicaRandom, RepeatsWhereOneLayerAloneTrains) {
  torch::nn::Sequential model(torch::nn::Dropout(0.5), torch::nn::Dropout(0.5));
  model->eval();
  model[1]->train();
  DataParallel dp(model, cpu_devices(2));
  const auto draw = [&] {
    torch::manual_seed(1);
    return dp(torch::ones({64, 64}));
  };
  const at::Tensor first = draw();
  for (int round = 0; round < 50; ++round) EXPECT_TRUE(draw().equal(first));
}

TEST(ReplicaRandom, EvaluationThatDrawsNothingLeavesTheGeneratorAsItIs) {
  torch::nn::Sequential model(torch::nn::Linear(4, 4), torch::nn::Dropout(0.5));
  model->eval();
  DataParallel dp(model, cpu_devices(2));
  torch::manual_seed(5);
  const at::Tensor want = torch::rand({2});
  torch::manual_seed(5);
  dp(torch::ones({4, 4}));
  EXPECT_TRUE(torch::rand({2}).equal(want));
}

}  // namespace
}  // namespace lockstep

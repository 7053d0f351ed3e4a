// Tests backward through DataParallel: gradients, hooks, graphs.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <vector>

#include "lockstep/replicas/data_parallel.h"
#include "tests/replicas/replica_fixtures.h"

namespace lockstep {
namespace {

using replica_tests::contains;
using replica_tests::cpu_devices;
using replica_tests::doubles;
using replica_tests::forget_gradients;
using replica_tests::gradients_of;
using replica_tests::largest_difference;
using replica_tests::text_of_error;
using replica_tests::TwoLayers;

TEST(DataParallel, GradientsAreTheSameBitsInEachRun) {
  torch::manual_seed(1);
  TwoLayers model;
  DataParallel dp(model, cpu_devices(3));
  const at::Tensor x = doubles({9, 5});
  std::vector<at::Tensor> first;
  for (int round = 0; round < 20; ++round) {
    forget_gradients(*model);
    dp(x).pow(2).sum().backward();
    if (round == 0) first = gradients_of(*model);
    EXPECT_EQ(largest_difference(gradients_of(*model), first), 0);
  }
}

struct TiedImpl : torch::nn::Cloneable<TiedImpl> {
  TiedImpl() { reset(); }
  void reset() override {
    in = register_parameter("in", torch::full({3, 3}, 0.5, torch::kDouble));
    out = register_parameter("out", in);
  }
  at::Tensor forward(const at::Tensor& x) { return torch::tanh(x.mm(in)).mm(out); }
  at::Tensor in, out;
};
TORCH_MODULE(Tied);

TEST(DataParallel, AddsUpTheGradientOfASharedParameter) {
  torch::manual_seed(1);
  Tied model;
  DataParallel dp(model, cpu_devices(2));
  const at::Tensor x = doubles({5, 3});
  model->forward(x).sum().backward();
  const auto want = gradients_of(*model);
  forget_gradients(*model);
  dp(x).sum().backward();
  EXPECT_LT(largest_difference(gradients_of(*model), want), 1e-13);
}

TEST(DataParallel, GradientsCanBeAskedForByThemselves) {
  torch::manual_seed(1);
  TwoLayers model;
  DataParallel dp(model, cpu_devices(2));
  const at::Tensor x = doubles({5, 5}).requires_grad_();
  std::vector<at::Tensor> wanted = model->parameters();
  wanted.push_back(x);
  const auto want = torch::autograd::grad({model->forward(x).sum()}, wanted);
  const auto got = torch::autograd::grad({dp(x).sum()}, wanted);
  EXPECT_LT(largest_difference(got, want), 1e-13);
  for (const auto& parameter : model->parameters()) EXPECT_FALSE(parameter.grad().defined());
  dp(x).sum().backward({}, c10::nullopt, false, std::vector<at::Tensor>{model->second->weight});
  EXPECT_TRUE(model->second->weight.grad().defined());
  EXPECT_FALSE(model->first->weight.grad().defined());
  EXPECT_FALSE(x.grad().defined());
}

TEST(DataParallel, HooksSeeTheWholeGradientOnce) {
  torch::manual_seed(1);
  TwoLayers model;
  DataParallel dp(model, cpu_devices(2));
  const at::Tensor x = doubles({5, 5});
  const at::Tensor want = torch::autograd::grad({model->forward(x).sum()}, {model->first->weight})[0];
  std::vector<at::Tensor> seen;
  model->first->weight.register_hook([&](const at::Tensor& gradient) { seen.push_back(gradient.clone()); });
  dp(x).sum().backward();
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_TRUE(seen[0].allclose(want));
  EXPECT_TRUE(model->first->weight.grad().allclose(want));
}

TEST(DataParallel, WhatIsFrozenAfterTheForwardGetsNoGradient) {
  for (const bool is_hooked : {false, true}) {
    TwoLayers model;
    DataParallel dp(model, cpu_devices(2));
    if (is_hooked) model->second->bias.register_hook([](const at::Tensor&) {});
    const at::Tensor x = doubles({4, 5});
    const at::Tensor want = torch::autograd::grad({model->forward(x).sum()}, {model->second->weight})[0];
    const at::Tensor loss = dp(x).sum();
    model->first->weight.set_requires_grad(false);
    loss.backward();
    EXPECT_FALSE(model->first->weight.grad().defined());
    EXPECT_TRUE(model->second->weight.grad().allclose(want));
    EXPECT_TRUE(model->second->bias.grad().allclose(torch::full({3}, 4.0, torch::kDouble)));
  }
}

TEST(DataParallel, GradientsAddToThoseThatAreThere) {
  TwoLayers model;
  DataParallel dp(model, cpu_devices(2));
  const at::Tensor gradient = torch::full_like(model->second->bias, 10);
  model->second->bias.mutable_grad() = gradient;
  dp(doubles({4, 5})).sum().backward();
  EXPECT_TRUE(model->second->bias.grad().is_same(gradient));  // in its own memory
  EXPECT_TRUE(gradient.allclose(torch::full_like(gradient, 14)));
}

TEST(DataParallel, AGraphGoesBackwardOnceUnlessItIsKept) {
  TwoLayers model;
  DataParallel dp(model, cpu_devices(2));
  const at::Tensor x = doubles({4, 5});
  const at::Tensor kept = dp(x).sum();
  kept.backward({}, /*retain_graph=*/true);
  const auto once = gradients_of(*model);
  kept.backward();
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_TRUE(model->parameters()[i].grad().allclose(2 * once[i]));
  EXPECT_TRUE(contains(text_of_error([&] { kept.backward(); }), "backward through the graph a second time"));
}

TEST(DataParallel, TwoForwardsBeforeOneBackward) {
  TwoLayers model;
  DataParallel dp(model, cpu_devices(2));
  const at::Tensor a = doubles({4, 5}), b = doubles({3, 5});
  const auto want = torch::autograd::grad({model->forward(a).sum() + model->forward(b).sum()}, model->parameters());
  (dp(a).sum() + dp(b).sum()).backward();
  EXPECT_LT(largest_difference(gradients_of(*model), want), 1e-13);
}

TEST(DataParallel, ABackwardMayOutliveItsObject) {
  TwoLayers model;
  at::Tensor loss;
  {
    DataParallel dp(model, cpu_devices(2));
    loss = dp(doubles({4, 5})).sum();
  }
  loss.backward();
  EXPECT_TRUE(model->first->weight.grad().defined());
}

// Records the thread-local modes that a replica sees.
}  // namespace
}  // namespace lockstep

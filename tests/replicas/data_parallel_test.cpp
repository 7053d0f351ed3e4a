#include "lockstep/replicas/data_parallel.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <set>
#include <stdexcept>

#include "lockstep/base/error.h"
#include "lockstep/detail/tensor/autocast.h"
#include "lockstep/replicas/replica_error.h"
#include "tests/replicas/replica_fixtures.h"

namespace lockstep {
namespace {

using replica_tests::contains;
using replica_tests::cpu_devices;
using replica_tests::forget_gradients;
using replica_tests::gradients_of;
using replica_tests::largest_difference;
using replica_tests::text_of_error;
using replica_tests::TwoLayers;

at::Tensor doubles(at::IntArrayRef sizes) { return torch::randn(sizes, torch::kDouble); }

// Parameters: replicas and samples, with even chunks, uneven chunks, fewer chunks than replicas, one sample.
class DataParallelSizes : public ::testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(DataParallelSizes, EqualsTheModuleItself) {
  const auto [replicas, samples] = GetParam();
  torch::manual_seed(1);
  TwoLayers model;
  DataParallel dp(model, cpu_devices(replicas));
  at::Tensor x = doubles({samples, 5}).requires_grad_();
  const at::Tensor weights = doubles({samples, 3});

  (model->forward(x) * weights).sum().backward();
  const auto want = gradients_of(*model);
  const at::Tensor want_x = x.grad().clone();
  forget_gradients(*model);
  x.mutable_grad() = at::Tensor();

  const at::Tensor output = dp(x);
  EXPECT_TRUE(output.allclose(model->forward(x), 1e-13, 1e-13));
  (output * weights).sum().backward();
  EXPECT_LT(largest_difference(gradients_of(*model), want), 1e-12);
  EXPECT_LT((x.grad() - want_x).abs().max().item<double>(), 1e-12);

  // A second backward adds to the gradients, as in LibTorch.
  (dp(x) * weights).sum().backward();
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_LT((model->parameters()[i].grad() - 2 * want[i]).abs().max().item<double>(), 1e-12);
  }
}
INSTANTIATE_TEST_SUITE_P(Table, DataParallelSizes,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4), ::testing::Values(1, 2, 5, 8)));

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

TEST(DataParallel, WeightsAreSharedAndReplicaZeroIsTheModule) {
  TwoLayers model;
  DataParallel dp(model, cpu_devices(2));
  EXPECT_EQ(dp.module().get(), model.get());
  EXPECT_EQ(dp.replicas()[1]->first->weight.data_ptr(), model->first->weight.data_ptr());
  EXPECT_FALSE(dp.replicas()[1]->first->weight.is_same(model->first->weight));
}

TEST(DataParallel, ReplicasFollowTheModule) {
  torch::manual_seed(1);
  TwoLayers model;
  DataParallel dp(model, cpu_devices(2));
  const at::Tensor x = doubles({4, 5});
  {
    const torch::NoGradGuard no_grad;
    model->first->weight.fill_(0.5);
  }
  EXPECT_TRUE(dp(x).allclose(model->forward(x)));
  model->to(torch::kFloat);  // changes memory and type
  EXPECT_TRUE(dp(x.to(torch::kFloat)).allclose(model->forward(x.to(torch::kFloat))));
  model->first->weight.set_requires_grad(false);
  forget_gradients(*model);
  dp(x.to(torch::kFloat)).sum().backward();
  EXPECT_FALSE(model->first->weight.grad().defined());
  EXPECT_TRUE(model->second->weight.grad().defined());
}

struct ReturnsLossImpl : torch::nn::Cloneable<ReturnsLossImpl> {
  ReturnsLossImpl() { reset(); }
  void reset() override { weight = register_parameter("weight", torch::ones({1}, torch::kDouble)); }
  at::Tensor forward(const at::Tensor& x) { return (x * weight).pow(2).mean(); }
  at::Tensor weight;
};
TORCH_MODULE(ReturnsLoss);

TEST(DataParallel, LossesComeAsAVectorWhoseMeanAndSumGoBackward) {
  ReturnsLoss model;
  DataParallel dp(model, cpu_devices(2));
  const at::Tensor x = torch::tensor({1.0, 2.0, 3.0, 4.0}, torch::kDouble);
  const at::Tensor losses = dp(x);
  EXPECT_TRUE(losses.allclose(torch::tensor({2.5, 12.5}, torch::kDouble)));
  losses.mean().backward();
  EXPECT_DOUBLE_EQ(model->weight.grad().item<double>(), 15);  // 2 * mean of squares, 7.5
  forget_gradients(*model);
  dp(x).sum().backward();
  EXPECT_DOUBLE_EQ(model->weight.grad().item<double>(), 30);
  EXPECT_EQ(dp(x.slice(0, 0, 1)).sizes(), (std::vector<std::int64_t>{1}));  // one chunk: still a vector
}

TEST(DataParallel, CutsAlongAnotherDimension) {
  ReturnsLoss model;
  DataParallel dp(model, cpu_devices(2), "cpu:0", 1);
  const at::Tensor x = torch::tensor({{1.0, 3.0}, {1.0, 3.0}}, torch::kDouble);
  EXPECT_TRUE(dp(x).allclose(torch::tensor({1.0, 9.0}, torch::kDouble)));
}

TEST(DataParallel, TakesDevicesByNameOrNumberFromAVector) {
  TwoLayers model;
  const std::vector<std::string> names{"cpu:0", "cpu:1"};
  DataParallel by_name(model, names);
  EXPECT_EQ(by_name.device_ids(), cpu_devices(2));
  EXPECT_EQ(replicate(model, names).devices(), cpu_devices(2));
  if (!torch::cuda::is_available()) {
    EXPECT_EQ(DataParallel(model, std::vector<int>{0, 1, 2}).device_ids(), cpu_devices(3));
  }
  const std::vector<std::string> wrong{"cpu:0", "gpu:1"};
  EXPECT_TRUE(contains(text_of_error([&] { DataParallel dp(model, wrong); }), "\"gpu:1\" is not a device"));
}

// Cloneable calls reset() on the clone, and finds less than the original has.
struct RegistersInConstructorImpl : torch::nn::Cloneable<RegistersInConstructorImpl> {
  RegistersInConstructorImpl() { linear = register_module("linear", torch::nn::Linear(2, 2)); }
  void reset() override {}
  at::Tensor forward(const at::Tensor& x) { return linear(x); }
  torch::nn::Linear linear{nullptr};
};
TORCH_MODULE(RegistersInConstructor);

TEST(DataParallel, SaysWhereACloneableMustRegister) {
  RegistersInConstructor model;
  const std::string text = text_of_error([&] { DataParallel dp(model, cpu_devices(2)); });
  EXPECT_TRUE(contains(text, "in `void reset() override`, and call reset() in the constructor")) << text;
  EXPECT_FALSE(contains(text, "derive it from")) << "it is";
}

struct ManyThingsImpl : torch::nn::Cloneable<ManyThingsImpl> {
  using Batch = std::map<std::string, at::Tensor>;
  void reset() override {
    used = register_parameter("used", torch::ones({2}));
    unused = register_parameter("unused", torch::ones({2}));
  }
  ManyThingsImpl() { reset(); }
  std::tuple<Batch, std::vector<at::Tensor>, int> forward(const Batch& batch, int factor, const std::string& name) {
    const at::Tensor y = batch.at(name) * used * factor;
    return {{{"y", y}}, {y.detach(), y.sum()}, factor};
  }
  at::Tensor used, unused;
};
TORCH_MODULE(ManyThings);

TEST(DataParallel, TakesAndReturnsStructures) {
  ManyThings model;
  DataParallel dp(model, cpu_devices(2));
  const auto [maps, list, factor] = dp(ManyThingsImpl::Batch{{"x", torch::ones({3, 2})}}, 4, std::string("x"));
  EXPECT_TRUE(maps.at("y").equal(torch::full({3, 2}, 4.F)));
  EXPECT_FALSE(list[0].requires_grad());
  EXPECT_TRUE(list[1].equal(torch::tensor({16.F, 8.F})));  // two samples, then one
  EXPECT_EQ(factor, 4);
  maps.at("y").sum().backward();
  EXPECT_TRUE(model->used.grad().equal(torch::full({2}, 12.F)));
  EXPECT_FALSE(model->unused.grad().defined());
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
struct ModesImpl : torch::nn::Cloneable<ModesImpl> {
  ModesImpl() { reset(); }
  void reset() override { weight = register_parameter("weight", torch::ones({2, 2})); }
  std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& x) {
    return {torch::full({1}, torch::GradMode::is_enabled() ? 1 : 0), x.mm(weight)};
  }
  at::Tensor weight;
};
TORCH_MODULE(Modes);

TEST(DataParallel, GradModeAndAutocastAreTheCallers) {
  Modes model;
  DataParallel dp(model, cpu_devices(2));
  const at::Tensor x = torch::ones({4, 2});
  EXPECT_TRUE(dp(x).first.equal(torch::tensor({1, 1})));
  EXPECT_TRUE(dp(x).second.requires_grad());
  {
    const torch::NoGradGuard no_grad;
    EXPECT_TRUE(dp(x).first.equal(torch::tensor({0, 0})));
    EXPECT_FALSE(dp(x).second.requires_grad());
  }
  {
    const c10::InferenceMode inference;
    EXPECT_TRUE(dp(x).second.is_inference());
  }
  {
    const Autocast autocast(c10::DeviceType::CPU, torch::kBFloat16, true);
    EXPECT_EQ(dp(x).second.scalar_type(), torch::kBFloat16);
  }
  EXPECT_EQ(dp(x).second.scalar_type(), torch::kFloat);
}

TEST(DataParallel, BuffersOfReplicaZeroPersist) {
  torch::manual_seed(1);
  torch::nn::BatchNorm1d model(2), twin(2);
  DataParallel dp(model, cpu_devices(2));
  const at::Tensor x = torch::randn({6, 2});
  for (int step = 0; step < 3; ++step) {
    dp(x);
    twin->forward(x.slice(0, 0, 3));  // only the first chunk
  }
  EXPECT_TRUE(model->running_mean.allclose(twin->running_mean));
  EXPECT_TRUE(model->running_var.allclose(twin->running_var));
  EXPECT_EQ(model->num_batches_tracked.item<std::int64_t>(), 3);
  model->eval();
  EXPECT_TRUE(dp(x).allclose(model->forward(x)));  // all replicas normalise with replica 0's statistics
}

TEST(DataParallel, TrainingModesAreTheModules) {
  torch::nn::Sequential model(torch::nn::Dropout(0.5), torch::nn::Dropout(0.5));
  DataParallel dp(model, cpu_devices(2));
  const at::Tensor x = torch::ones({64, 8});
  EXPECT_FALSE(dp(x).equal(x));
  model->eval();
  EXPECT_TRUE(dp(x).equal(x));
  model[1]->train();  // only one of them
  EXPECT_FALSE(dp(x).slice(0, 32, 64).equal(x.slice(0, 32, 64)));
}

struct FailsImpl : torch::nn::Cloneable<FailsImpl> {
  FailsImpl() { reset(); }
  void reset() override { weight = register_parameter("weight", torch::ones({1})); }
  at::Tensor forward(const at::Tensor& x, int how) {
    if (x[0].item<float>() == 0) return x * weight;
    if (how == 0) throw Error("the batch is bad", "FailsImpl", "give a better one");
    if (how == 1) throw std::out_of_range("a plain exception");
    if (how == 2) throw 7;
    return x.reshape({-7}) * weight;
  }
  at::Tensor weight;
};
TORCH_MODULE(Fails);

TEST(DataParallel, ErrorsNameReplicaAndDeviceAndKeepTheirType) {
  Fails model;
  DataParallel dp(model, cpu_devices(3));
  const at::Tensor x = torch::tensor({0.F, 1.F, 1.F});
  try {
    dp(x, 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.happened(), "the batch is bad");
    EXPECT_EQ(error.where(), "FailsImpl; forward in replica 1 on device cpu:1");
  }
  try {
    dp(x, 1);
    FAIL();
  } catch (const ReplicaError& error) {
    EXPECT_EQ(error.happened(), "a plain exception");
    EXPECT_TRUE(contains(error.where(), "replica 1 on device cpu:1"));
    EXPECT_THROW(std::rethrow_exception(error.cause()), std::out_of_range);
  }
  EXPECT_THROW(dp(x, 2), ReplicaError);
  try {
    dp(x, 3);
    FAIL();
  } catch (const c10::Error& error) {
    EXPECT_TRUE(contains(error.what(), "invalid shape dimension -7"));
    EXPECT_TRUE(contains(error.what(), "replica 1 on device cpu:1"));
  }
  EXPECT_TRUE(dp(torch::zeros({3}), 0).equal(torch::zeros({3})));  // and works afterwards
}

TEST(DataParallel, ErrorsOfBackwardNameTheReplicaToo) {
  TwoLayers model;
  DataParallel dp(model, cpu_devices(2));
  const at::Tensor output = dp.apply(
      [](TwoLayers& replica, const at::Tensor& x) {
        at::Tensor y = replica->forward(x);
        if (x[0][0].item<double>() == 0)
          y.register_hook([](const at::Tensor&) -> at::Tensor { throw Error("in a hook", "here", "-"); });
        return y;
      },
      torch::cat({torch::ones({2, 5}, torch::kDouble), torch::zeros({2, 5}, torch::kDouble)}));
  const std::string text = text_of_error([&] { output.sum().backward(); });
  EXPECT_TRUE(contains(text, "in a hook")) << text;
  EXPECT_TRUE(contains(text, "backward in replica 1 on device cpu:1")) << text;
  forget_gradients(*model);
  dp(doubles({4, 5})).sum().backward();  // the failed backward left nothing behind
}

TEST(DataParallel, RefusesWhatCannotBeReplicated) {
  struct PlainImpl : torch::nn::Module {
    at::Tensor forward(const at::Tensor& x) { return x; }
  };
  const std::string text = text_of_error([] { DataParallel dp(std::make_shared<PlainImpl>(), cpu_devices(2)); });
  EXPECT_TRUE(contains(text, "cannot be cloned")) << text;
  EXPECT_TRUE(contains(text_of_error([] { DataParallel dp(TwoLayers(), {"cpu:0", "cpu:0"}); }), "named twice"));
  EXPECT_TRUE(contains(text_of_error([] { DataParallel dp(TwoLayers(), {"cuda:0"}); }),
                       "device cuda:0 (device_ids[0]) but found one of them on device: cpu"));
  EXPECT_TRUE(contains(text_of_error([] { replicate(TwoLayers(), {"cpu:0", "cuda:100"}); }), "there is no cuda:100"));
  EXPECT_TRUE(contains(text_of_error([] { DataParallel dp(TwoLayers(), cpu_devices(2), "cuda:100"); }),
                       "there is no cuda:100"));
}

TEST(DataParallel, RefusesMoreChunksThanReplicas) {
  auto replicas = replicate(TwoLayers(), cpu_devices(2));
  const auto chunks = scatter(std::make_tuple(doubles({3, 5})), cpu_devices(3));
  EXPECT_TRUE(contains(text_of_error([&] { parallel_apply(replicas, chunks); }), "3 chunks for 2 replicas"));
}

// PyTorch's rule: there is nothing to divide, so only the first device computes.
struct MakesSamplesImpl : torch::nn::Cloneable<MakesSamplesImpl> {
  MakesSamplesImpl() { reset(); }
  void reset() override { weight = register_parameter("weight", torch::full({3}, 2.0)); }
  at::Tensor forward() { return torch::ones({4, 3}) * weight; }
  at::Tensor weight;
};
TORCH_MODULE(MakesSamples);

TEST(DataParallel, WithoutArgumentsTheFirstReplicaRuns) {
  MakesSamples model;
  DataParallel dp(model, cpu_devices(2));
  const at::Tensor samples = dp();
  EXPECT_TRUE(samples.equal(torch::full({4, 3}, 2.0)));
  samples.sum().backward();
  EXPECT_TRUE(model->weight.grad().equal(torch::full({3}, 4.0)));
}

TEST(DataParallel, MakingReplicasDrawsNothing) {
  TwoLayers model;
  torch::manual_seed(5);
  const at::Tensor want = torch::rand({2});
  torch::manual_seed(5);
  DataParallel dp(model, cpu_devices(3));
  EXPECT_TRUE(torch::rand({2}).equal(want));
}

TEST(DataParallel, FunctionsOfPyTorchCompose) {
  torch::manual_seed(1);
  TwoLayers model;
  const at::Tensor x = doubles({5, 5}).requires_grad_();
  std::vector<at::Tensor> wanted = model->parameters();
  wanted.push_back(x);
  const auto want = torch::autograd::grad({model->forward(x).pow(2).sum()}, wanted);
  const auto inputs = scatter(std::make_tuple(x), cpu_devices(2));
  auto replicas = replicate(model, cpu_devices(2));
  const auto outputs = parallel_apply(replicas, inputs);
  const at::Tensor y = gather(outputs, "cpu:0");
  EXPECT_LT(largest_difference(torch::autograd::grad({y.pow(2).sum()}, wanted), want), 1e-13);
  EXPECT_TRUE(data_parallel(model, cpu_devices(2), x).allclose(y));
}

TEST(DataParallel, ATraceNamesTheSteps) {
  TwoLayers model;
  DataParallel dp(model, cpu_devices(2));
  StepTrace trace;
  dp.set_trace(&trace);
  dp(doubles({4, 5})).sum().backward();
  std::multiset<std::string> names;
  for (const TraceSpan& span : trace.spans()) {
    names.insert(span.name + " " + span.device);
    EXPECT_LE(span.begin_s, span.end_s);
  }
  EXPECT_EQ(names, (std::multiset<std::string>{"scatter cpu:0", "broadcast cpu:1", "forward cpu:0", "forward cpu:1",
                                               "gather cpu:0", "scatter cpu:0", "backward cpu:0", "backward cpu:1",
                                               "reduce cpu:0"}));
}

}  // namespace
}  // namespace lockstep

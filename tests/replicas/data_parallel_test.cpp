#include "lockstep/replicas/data_parallel.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/detail/tensor/autocast.h"
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

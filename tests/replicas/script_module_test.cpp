// Compares TorchScript in DataParallel, parallel loss and inference with the module itself.
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include "lockstep/replicas/parallel_inference.h"
#include "lockstep/replicas/parallel_loss.h"
#include "tests/replicas/replica_fixtures.h"

namespace lockstep {
namespace {

using replica_tests::contains;
using replica_tests::cpu_devices;
using replica_tests::largest_difference;
using replica_tests::text_of_error;

// A layer with a weight, a frozen bias, a buffer that each forward in training replaces, and one that it writes.
torch::jit::Module scripted_layer() {
  torch::jit::Module layer("layer");
  layer.register_parameter("weight", torch::randn({3, 5}, torch::kDouble).requires_grad_(), false);
  layer.register_parameter("bias", torch::randn({3}, torch::kDouble), false);
  layer.register_buffer("steps", torch::zeros({}, torch::kLong));
  layer.register_buffer("last", torch::zeros({}, torch::kDouble));
  layer.register_attribute("training", c10::BoolType::get(), true);
  layer.define(R"(
    def forward(self, x):
        if self.training:
            self.steps = self.steps + 1
            self.last.copy_(x.detach().sum())
        return torch.linear(x, self.weight, self.bias)
  )");
  return layer;
}

// The layer inside another module, which has a parameter too.
torch::jit::Module scripted_model() {
  torch::jit::Module model("model");
  model.register_module("layer", scripted_layer());
  model.register_parameter("scale", torch::randn({3}, torch::kDouble).requires_grad_(), false);
  model.register_attribute("training", c10::BoolType::get(), true);
  model.define(R"(
    def forward(self, x):
        y = torch.tanh(self.layer.forward(x))
        return y * self.scale
    def both(self, x, factor: int):
        y = self.forward(x)
        return {"scores": y * factor, "classes": y.argmax(1)}, [y.sum()]
  )");
  return model;
}

std::vector<at::Tensor> script_gradients(const torch::jit::Module& model) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : model.parameters()) {
    gradients.push_back(parameter.grad().defined() ? parameter.grad().clone() : at::Tensor());
    at::Tensor(parameter).mutable_grad() = at::Tensor();
  }
  return gradients;
}

class ScriptModuleSizes : public ::testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(ScriptModuleSizes, EqualsTheModuleItself) {
  const auto [replicas, samples] = GetParam();
  torch::manual_seed(1);
  torch::jit::Module model = scripted_model();
  DataParallel dp(model, cpu_devices(replicas));
  const at::Tensor x = torch::randn({samples, 5}, torch::kDouble);
  // The executor profiles the first calls and runs other code afterwards.
  for (int step = 0; step < 4; ++step) {
    const at::Tensor want = model.forward({x}).toTensor();
    want.pow(2).sum().backward();
    const auto want_gradients = script_gradients(model);
    const at::Tensor got = dp(x).toTensor();
    EXPECT_TRUE(got.allclose(want, 1e-13, 1e-13));
    got.pow(2).sum().backward();
    EXPECT_LT(largest_difference(script_gradients(model), want_gradients), 1e-12);
    const torch::NoGradGuard no_grad;
    for (at::Tensor parameter : model.parameters()) parameter.add_(0.1);
  }
}
INSTANTIATE_TEST_SUITE_P(Table, ScriptModuleSizes,
                         ::testing::Combine(::testing::Values(1, 2, 3), ::testing::Values(1, 2, 7)));

TEST(ScriptModule, SharesWeightsAndLeavesFrozenOnesAlone) {
  torch::jit::Module model = scripted_model();
  DataParallel dp(model, cpu_devices(2));
  EXPECT_EQ(dp.module()._ivalue(), model._ivalue());
  const at::Tensor mine = model.attr("scale").toTensor();
  const at::Tensor theirs = dp.replicas()[1].attr("scale").toTensor();
  EXPECT_FALSE(theirs.is_same(mine));
  EXPECT_EQ(theirs.data_ptr(), mine.data_ptr());
  dp(torch::ones({4, 5}, torch::kDouble)).toTensor().sum().backward();
  EXPECT_TRUE(mine.grad().defined());
  EXPECT_FALSE(theirs.grad().defined());
  EXPECT_FALSE(model.attr("layer").toModule().attr("bias").toTensor().grad().defined());
}

// The averages of the first chunk persist, and the other replicas start from them, whether they are written or
// replaced.
TEST(ScriptModule, BuffersAreThoseOfReplicaZero) {
  torch::jit::Module model = scripted_model();
  DataParallel dp(model, cpu_devices(2));
  const at::Tensor x = torch::arange(1, 11, torch::kDouble).view({2, 5});  // sums 15 and 40
  for (int step = 1; step <= 3; ++step) {
    dp(x);
    for (std::size_t replica = 0; replica < 2; ++replica) {
      const auto layer = dp.replicas()[replica].attr("layer").toModule();
      EXPECT_EQ(layer.attr("steps").toTensor().item<int>(), step) << replica;
      EXPECT_EQ(layer.attr("last").toTensor().item<double>(), replica == 0 ? 15 : 40);
    }
  }
  model.attr("layer").toModule().setattr("steps", torch::tensor(std::int64_t{100}));
  model.eval();
  dp(x);
  for (std::size_t replica = 0; replica < 2; ++replica) {
    EXPECT_EQ(dp.replicas()[replica].attr("layer").toModule().attr("steps").toTensor().item<int>(), 100) << replica;
  }
}

TEST(ScriptModule, MethodsOtherThanForwardReturnDictsAndLists) {
  torch::jit::Module model = scripted_model();
  DataParallel dp(model, cpu_devices(2));
  const at::Tensor x = torch::randn({5, 5}, torch::kDouble);
  const c10::IValue got = dp.apply(
      [](torch::jit::Module& replica, const at::Tensor& chunk) {
        return replica.get_method("both")({chunk, 3});
      },
      x);
  const at::Tensor want = model.forward({x}).toTensor();
  const auto& parts = got.toTupleRef().elements();
  const auto scores = parts[0].toGenericDict();
  EXPECT_TRUE(scores.at("scores").toTensor().allclose(want * 3));
  EXPECT_TRUE(scores.at("classes").toTensor().equal(want.argmax(1)));
  const at::Tensor sums = parts[1].toTensorList().get(0);  // scalars become a vector
  EXPECT_TRUE(sums.allclose(torch::stack({want.slice(0, 0, 3).sum(), want.slice(0, 3).sum()})));
}

TEST(ScriptModule, ParallelLossEqualsOneDevice) {
  torch::jit::Module model = scripted_model();
  DataParallel dp(model, cpu_devices(2));
  const at::Tensor x = torch::randn({5, 5}, torch::kDouble);
  const at::Tensor labels = torch::tensor({0, 1, 2, 0, 1});
  const at::Tensor want = torch::nn::functional::cross_entropy(model.forward({x}).toTensor(), labels);
  want.backward();
  const auto want_gradients = script_gradients(model);
  struct Loss {
    at::Tensor sum;
    at::Tensor count;
  };
  const auto loss = [](torch::jit::Module& replica, const at::Tensor& chunk, const at::Tensor& truth) {
    const auto how = torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum);
    return Loss{torch::nn::functional::cross_entropy(replica.forward({chunk}).toTensor(), truth, how),
                torch::tensor(truth.numel())};
  };
  const ReplicaLosses losses = parallel_loss(dp, loss, x, labels);
  losses.mean().backward();
  EXPECT_NEAR(losses.mean().item<double>(), want.item<double>(), 1e-12);
  EXPECT_LT(largest_difference(script_gradients(model), want_gradients), 1e-12);
}

TEST(ScriptModule, EvaluatesInOrderAndPutsTheModesBack) {
  torch::jit::Module model = scripted_model();
  model.attr("layer").toModule().setattr("training", false);  // the model trains, the layer does not
  DataParallel dp(model, cpu_devices(3));
  std::vector<at::Tensor> batches;
  for (int i = 0; i < 20; ++i) batches.push_back(torch::randn({1 + i % 3, 5}, torch::kDouble));
  const auto results = parallel_evaluate(dp, batches, [](torch::jit::Module& replica, const at::Tensor& batch) {
    EXPECT_FALSE(replica.is_training());
    return replica.forward({batch}).toTensor();
  });
  EXPECT_TRUE(model.is_training());
  EXPECT_FALSE(model.attr("layer").toModule().is_training());
  ASSERT_EQ(results.size(), batches.size());
  for (std::size_t i = 0; i < batches.size(); ++i) {
    EXPECT_TRUE(results[i].allclose(model.forward({batches[i]}).toTensor()));
  }
}

// `torch.jit.freeze` turns the weights into constants and drops the training mode.
TEST(ScriptModule, AFrozenOneInfers) {
  torch::jit::Module model = scripted_model();
  model.eval();
  torch::jit::Module frozen = torch::jit::freeze(model);
  DataParallel dp(frozen, cpu_devices(2));
  const at::Tensor x = torch::randn({5, 5}, torch::kDouble);
  EXPECT_TRUE(dp(x).toTensor().allclose(model.forward({x}).toTensor()));
  const std::vector<at::Tensor> batches{x};
  const auto run = [](torch::jit::Module& replica, const at::Tensor& b) { return replica.forward({b}).toTensor(); };
  EXPECT_TRUE(parallel_evaluate(dp, batches, run)[0].allclose(model.forward({x}).toTensor()));
}

// Dropout inside TorchScript draws from the replica's generator, too.
TEST(ScriptModule, DropoutRepeatsAndDiffersBetweenReplicas) {
  torch::jit::Module model("dropping");
  model.register_parameter("weight", torch::ones({64}).requires_grad_(), false);
  model.define("def forward(self, x):\n  return torch.dropout(x * self.weight, 0.5, True)\n");
  DataParallel dp(model, cpu_devices(2));
  const auto output_for = [&](std::uint64_t seed) {
    torch::manual_seed(seed);
    return dp(torch::ones({2, 64})).toTensor().detach();
  };
  const at::Tensor first = output_for(1);
  EXPECT_FALSE(first[0].equal(first[1]));
  for (int round = 0; round < 5; ++round) EXPECT_TRUE(output_for(1).equal(first));
  EXPECT_FALSE(output_for(2).equal(first));
}

TEST(ScriptModule, ErrorsNameTheReplica) {
  torch::jit::Module model = scripted_model();
  DataParallel dp(model, cpu_devices(2));
  const std::string text = text_of_error([&] { dp(torch::ones({4, 6}, torch::kDouble)); });
  EXPECT_TRUE(contains(text, "in replica 0 on device cpu:0")) << text;
}

}  // namespace
}  // namespace lockstep

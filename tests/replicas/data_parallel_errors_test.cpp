// Tests the errors of DataParallel: what they name, and what is refused.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>

#include "lockstep/base/error.h"
#include "lockstep/replicas/data_parallel.h"
#include "lockstep/replicas/replica_error.h"
#include "tests/replicas/replica_fixtures.h"

namespace lockstep {
namespace {

using replica_tests::contains;
using replica_tests::cpu_devices;
using replica_tests::doubles;
using replica_tests::forget_gradients;
using replica_tests::text_of_error;
using replica_tests::TwoLayers;

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

}  // namespace
}  // namespace lockstep

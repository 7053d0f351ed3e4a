// What parts of a step cost on CUDA devices, in waits of the host, kernels and memory, as imitated devices count them
// (tests/fake_gpu). Each must be no more for many parameters than for few.
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "lockstep/optim/adam.h"
#include "lockstep/optim/clip_grad_norm.h"
#include "lockstep/optim/grad_scaler.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/replicas/gradient_sum.h"
#include "lockstep/replicas/worker_threads.h"
#include "tests/fake_gpu/counts/device_counters.h"
#include "tests/support/cuda_devices.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

at::TensorOptions of_device(int index) {
  return at::TensorOptions(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(index)));
}

// Parameters on the first device, each with a gradient of ones.
std::vector<at::Tensor> parameters_with_gradients(int count) {
  std::vector<at::Tensor> parameters;
  for (int i = 0; i < count; ++i) {
    parameters.push_back(at::ones({4, i + 1}, of_device(0)).requires_grad_());
    parameters.back().mutable_grad() = at::ones({4, i + 1}, of_device(0));
  }
  return parameters;
}

// LibTorch calls CUDA for a copy, and then for the wait.
long waits_of_one_copy() {
  const at::Tensor tensor = at::ones({3}, of_device(0));
  return added_to("host_waits", [&] { tensor.cpu(); });
}

// A test in a process of its own, which has CUDA.
class CudaCosts : public ::testing::Test {
 protected:
  static void in_process(int devices, const std::function<void()>& body) {
    SKIP_WITHOUT_CUDA(devices);
    if (!has_imitated_devices()) GTEST_SKIP() << "needs imitated devices, which count";
    run_ranks_as_processes(1, [&](const Membership&) { body(); });
  }
};

TEST_F(CudaCosts, ClippingWaitsOnceForAllGradients) {
  in_process(1, [] {
    const auto waits = [](int count) {
      const auto parameters = parameters_with_gradients(count);
      double norm = 0;
      const long added = added_to("host_waits", [&] { norm = clip_grad_norm_(parameters, 1.0); });
      EXPECT_NEAR(norm, std::sqrt(2.0 * count * (count + 1)), 1e-4 * norm);
      EXPECT_NEAR(parameters.front().grad().sum().item<double>(), 4 / norm, 1e-4);
      return added;
    };
    EXPECT_EQ(waits(3), waits(50));
    EXPECT_EQ(waits(50), waits_of_one_copy());
  });
}

TEST_F(CudaCosts, AGradScalerWaitsOnceForAllGradients) {
  in_process(1, [] {
    const auto waits = [](int count) {
      auto parameters = parameters_with_gradients(count);
      SGD sgd(parameters, torch::optim::SGDOptions(0.5));
      GradScaler scaler;
      for (at::Tensor& parameter : parameters) parameter.mutable_grad().mul_(scaler.get_scale());
      const long added = added_to("host_waits", [&] {
        scaler.unscale_(sgd);
        scaler.step(sgd);
      });
      EXPECT_EQ(parameters.back().detach().cpu().min().item<double>(), 0.5);
      return added;
    };
    EXPECT_EQ(waits(3), waits(50));
    EXPECT_EQ(waits(50), waits_of_one_copy());
  });
}

TEST_F(CudaCosts, AnUpdateHasAsManyKernelsForManyParametersAsForFew) {
  in_process(1, [] {
    const auto kernels = [](int count) {
      const auto parameters = parameters_with_gradients(count);
      AdamW adam(parameters);
      adam.step();  // it makes the state
      return added_to("launches", [&] { adam.step(); });
    };
    const long of_few = kernels(3);
    EXPECT_GT(of_few, 0);
    EXPECT_EQ(kernels(50), of_few);
  });
}

// A backward that adds to zeros has a kernel more for each parameter.
TEST_F(CudaCosts, ABackwardAfterZeroGradHandsItsGradientsOver) {
  in_process(1, [] {
    const auto parameters = parameters_with_gradients(50);
    AdamW adam(parameters);
    const auto backward = [&] {
      std::vector<at::Tensor> sums;
      for (const at::Tensor& parameter : parameters) sums.push_back(parameter.square().sum());
      at::stack(sums).sum().backward();
    };
    for (const at::Tensor& parameter : parameters) parameter.mutable_grad().reset();
    const long alone = added_to("launches", backward);
    EXPECT_EQ(added_to("launches", [&] { adam.zero_grad(); }), 0);
    EXPECT_EQ(added_to("launches", backward), alone);
    StepOptions options;
    options.zero_grad = true;
    adam.step_with(options);
    EXPECT_EQ(added_to("launches", backward), alone);
  });
}

// Gradients that count as zeros: the second and third step find none.
TEST_F(CudaCosts, AStepWithoutABackwardUpdatesAsOnTheCpu) {
  in_process(1, [] {
    const auto weights = [](const c10::Device& device) {
      std::vector<at::Tensor> parameters;
      for (int i = 0; i < 3; ++i) parameters.push_back(at::ones({4, 3}, at::TensorOptions(device)).requires_grad_());
      for (int i = 0; i < 2; ++i) parameters[i].mutable_grad() = at::full({4, 3}, 0.5, at::TensorOptions(device));
      AdamW adam(parameters);
      StepOptions options;
      options.zero_grad = true;
      adam.step_with(options);
      parameters[1].mutable_grad() = at::full({4, 3}, -2, at::TensorOptions(device));
      adam.step();
      adam.zero_grad();
      adam.step();
      std::vector<at::Tensor> result;
      for (const at::Tensor& parameter : parameters) result.push_back(parameter.detach().cpu());
      return result;
    };
    const auto want = weights(c10::kCPU);
    const auto got = weights(of_device(0).device());
    EXPECT_LT(want[0].max().item<float>(), 0.998F);
    EXPECT_TRUE(want[2].eq(1).all().item<bool>());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(got[i].allclose(want[i], 1e-6, 1e-7)) << i << got[i];
  });
}

// Gradients of 64 MB on each of three devices: the sum takes pieces of 16 MB, on each device and on its way.
TEST_F(CudaCosts, ASumOfGradientsTakesAPieceOfMemory) {
  in_process(3, [] {
    constexpr std::int64_t kElements = std::int64_t{1} << 20;
    std::vector<GradientSum> sums(16);
    for (GradientSum& sum : sums) {
      sum.device = of_device(0).device();
      sum.target = at::ones({kElements}, of_device(0));
      for (int other : {1, 2}) sum.sources.push_back(at::ones({kElements}, of_device(other)));
    }
    WorkerThreads team(1);
    const long bytes = added_to("peak_bytes", [&] { add_gradients(team, sums); });
    EXPECT_LE(bytes, 80 << 20);
    for (const GradientSum& sum : sums) EXPECT_TRUE(sum.target.eq(3).all().item<bool>());
  });
}

}  // namespace
}  // namespace lockstep

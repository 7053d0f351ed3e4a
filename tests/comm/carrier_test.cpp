// The communicator that carries tensors of a device, and the error if there is none.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "lockstep/comm/local_device.h"
#include "tests/support/cuda_devices.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

std::string happened(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.happened();
  }
  return "no error";
}

std::string why_not_built(const std::string& engine) {
  for (const MissingEngine& missing : missing_engines()) {
    if (missing.name == engine) return missing.reason;
  }
  return "";
}

class Nccl : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Nccl, ::testing::Values(1, 2));

TEST_P(Nccl, SaysWhyItIsNotThere) {
  if (!why_no_cuda(1)) GTEST_SKIP() << "a CUDA device is there";
  run_ranks_as_processes(GetParam(), [](const Membership& membership) {
    const std::string reason = why_not_built("nccl");
    const std::string wanted = reason.empty()
                                   ? "engine nccl needs a CUDA device for each rank, but this process sees none"
                                   : "engine nccl: not built: " + reason;
    EXPECT_EQ(happened([&] { make_communicator("nccl", membership); }), wanted);
  });
}

TEST(Carrier, OfCpuTensorsIsTheGroupItself) {
  run_ranks_as_threads(2, [](const Membership& membership) {
    const auto group = make_communicator("", membership);
    EXPECT_EQ(&group->carrier(c10::kCPU), group.get());
    EXPECT_EQ(&group->carrier(c10::kMeta), group.get());  // its calls refuse such tensors
    EXPECT_EQ(group->device(), c10::Device(c10::kCPU));
  });
}

TEST(Carrier, OfOtherTensorsIsACompanionOfTheSameRanks) {
  run_ranks_as_threads(3, [](const Membership& membership) {
    auto companion = make_companion(membership, c10::kCPU);
    EXPECT_STREQ(companion->engine(), "thread");
    at::Tensor tensor = at::ones({5});
    companion->all_reduce(tensor);
    EXPECT_TRUE(tensor.eq(3).all().item<bool>());
  });
}

TEST(LocalDevice, IsTheCpuWhereThereIsNoCuda) {
  if (!why_no_cuda(1)) GTEST_SKIP() << "a CUDA device is there";
  EXPECT_TRUE(local_device().is_cpu());
  EXPECT_TRUE(use_local_device().is_cpu());
  EXPECT_TRUE(use_local_device_by_default().is_cpu());
}

}  // namespace
}  // namespace lockstep

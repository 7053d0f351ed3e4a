#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "lockstep/comm/factory.h"
#include "tests/comm/contract.h"
#include "tests/support/cuda_devices.h"

namespace lockstep {

inline c10::Device device_of(int rank) { return {c10::kCUDA, static_cast<c10::DeviceIndex>(rank)}; }

// The ends of the ranks of a group over nccl, each with the device of its number.
inline std::vector<RankOutcome> cuda_ranks(int world_size, const Contract::Body& body,
                                           const RanksOptions& options = {}) {
  return ranks_as_processes(
      world_size,
      [&](const Membership& membership) {
        const c10::DeviceGuard current(device_of(membership.rank));
        const auto group = make_communicator("nccl", membership);
        body(*group);
      },
      options);
}

inline void each_cuda_rank(int world_size, const Contract::Body& body) {
  const auto ends = cuda_ranks(world_size, body);
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    EXPECT_FALSE(ends[rank].failed) << "rank " << rank << ": " << ends[rank].text << " signal " << ends[rank].signal;
  }
}

inline at::Tensor on(const Communicator& group, const at::Tensor& tensor) { return tensor.to(group.device()); }

/// Tests over 1 to 4 ranks, each with a device.
class CudaRanks : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { SKIP_WITHOUT_CUDA(GetParam()); }
};

}  // namespace lockstep

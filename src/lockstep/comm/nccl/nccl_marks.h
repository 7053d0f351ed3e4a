#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdint>
#include <vector>

#include "lockstep/comm/nccl/nccl_handle.h"

namespace lockstep {

/// The next operation of each rank of a communicator, as one number (slot_of), exchanged before each operation: if
/// ranks disagree, NCCL silently moves whatever data they give it, or waits forever.
class NcclMarks {
 public:
  NcclMarks(std::uint64_t own, int ranks);

  /// Queues the exchange on `stream`, the current one. The exchange is also a barrier of all ranks.
  void exchange(NcclHandle& handle, const c10::cuda::CUDAStream& stream);
  /// The event that is recorded once all marks have arrived.
  const c10::Event& arrived() const { return arrived_; }
  /// After that event: the ranks that do something other than this one.
  std::vector<int> different() const;

 private:
  const int ranks_;
  at::Tensor sent_;       // [1], page-locked
  at::Tensor received_;   // [ranks], page-locked
  at::Tensor on_device_;  // [1 + ranks]
  c10::Event arrived_{c10::kCUDA};
};

}  // namespace lockstep

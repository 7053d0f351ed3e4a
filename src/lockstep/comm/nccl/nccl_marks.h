#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdint>
#include <vector>

#include "lockstep/comm/nccl/nccl_handle.h"

namespace lockstep {

/// What each rank of a communicator is about to do, as one number (slot_of): exchanged before each operation, because
/// NCCL moves what ranks that disagree give it without a word, or waits for good.
class NcclMarks {
 public:
  NcclMarks(std::uint64_t own, int ranks);

  /// Gets the exchange in line on `stream`, the current one. A meeting of all ranks, too.
  void exchange(NcclHandle& handle, const c10::cuda::CUDAStream& stream);
  /// Recorded where all marks have arrived.
  const c10::Event& arrived() const { return arrived_; }
  /// Once they have: the ranks that do something else than this one.
  std::vector<int> different() const;

 private:
  const int ranks_;
  at::Tensor sent_;       // [1], page-locked
  at::Tensor received_;   // [ranks], page-locked
  at::Tensor on_device_;  // [1 + ranks]
  c10::Event arrived_{c10::kCUDA};
};

}  // namespace lockstep

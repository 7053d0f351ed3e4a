#pragma once

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/comm/nccl/nccl_handle.h"

namespace lockstep {

/// What each rank of a communicator takes part in, as one number (slot_of), exchanged together with each operation: if
/// ranks disagree, NCCL silently moves whatever data they give it, or waits forever. Exchange and operation are one
/// group, which is one kernel.
class NcclMarks {
 public:
  NcclMarks(std::uint64_t own, int ranks);

  /// Copies this rank's mark to the device. All of this is queued on `stream`, the current one.
  void write(const c10::cuda::CUDAStream& stream);
  /// Begins the exchange and `operation` as one group of calls; a second time only `operation`. The exchange is also a
  /// barrier of all ranks.
  ncclResult_t begin_with(ncclComm_t communicator, cudaStream_t stream, const std::function<ncclResult_t()>& operation);
  /// The exchange alone, unless `begin_with` made it.
  void exchange_if_not_begun(NcclHandle& handle, const c10::cuda::CUDAStream& stream);
  /// Copies all ranks' marks to the host.
  void read();
  /// When the device has reached the end of `read`: the ranks that do something other than this one.
  std::vector<int> different() const;

 private:
  const int ranks_;
  at::Tensor sent_;       // [1], page-locked
  at::Tensor received_;   // [ranks], page-locked
  at::Tensor on_device_;  // [1 + ranks]
  bool begun_ = false;
};

}  // namespace lockstep

#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <string>

#include "tests/fake_gpu/nccl/shared_group.h"

/// A communicator. One is never deleted: a call with one that was destroyed is reported, and does not read foreign
/// memory.
struct ncclComm {
  int rank = 0, size = 0, device = 0;
  bool blocking = true;
  fake_gpu::SharedGroup shared;

  std::atomic<int> state{ncclSuccess};
  std::atomic<bool> aborted{false}, destroyed{false};
  std::atomic<int> running{0};             ///< launched and not ended: host threads and kernels
  std::atomic<std::uint64_t> launched{0};  ///< kernels, in the order of the calls
  std::atomic<std::uint64_t> completed{0};
  std::uint64_t meetings = 0;
  void* buffer = nullptr;  ///< device memory of NCCL's own

  /// Polls until `done`; false if the communicator is aborted, or the process ends.
  bool until(const std::function<bool()>& done) const;
  /// Waits until every rank has called it. False as above.
  bool meet();
};

namespace fake_gpu {

/// Whether a call may use the communicator now: ncclSuccess, or what the call returns. NCCL refuses a call while the
/// previous one of a communicator that does not block is still in progress.
ncclResult_t why_not_ready(const ncclComm* communicator);
/// Puts the communicator into a state of error, with a text for ncclGetLastError.
void fail(ncclComm* communicator, ncclResult_t result, const std::string& text);
void set_last_error(const std::string& text);
/// Connects with the other ranks. @return how that ended
ncclResult_t join(ncclComm* communicator);
/// Waits for what runs, and gives the communicator's memory back: ncclCommAbort and ncclCommDestroy end with it.
void reclaim(ncclComm* communicator);

}  // namespace fake_gpu

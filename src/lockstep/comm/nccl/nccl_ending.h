#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "lockstep/comm/nccl/nccl_handle.h"
#include "lockstep/comm/nccl/nccl_stream.h"

namespace lockstep {

/// A communicator of NCCL and the stream of its operations.
struct NcclWorkplace {
  std::shared_ptr<NcclHandle> handle;
  std::shared_ptr<NcclStream> stream;
};

/// Aborts all communicators of a group, and waits until their kernels have ended. NCCL frees memory when it aborts,
/// which waits for everything on the device, also for the kernel of another communicator whose peer is lost. So all are
/// told to stop before anything of any is freed.
///
/// A device on which a kernel does not end, or on which NCCL does not return, is lost to this process: whatever uses it
/// next hangs. After `limit` the process says so and ends.
void end_nccl(const std::vector<NcclWorkplace>& workplaces, std::chrono::seconds limit) noexcept;

/// That limit: LOCKSTEP_NCCL_ABORT_S, or a minute. @throws Error  if the variable is not a number of seconds
std::chrono::seconds nccl_abort_limit();

}  // namespace lockstep

#pragma once

#include <c10/core/Event.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/comm/mesh/connections.h"
#include "lockstep/comm/nccl/nccl_ending.h"
#include "lockstep/comm/nccl/nccl_handle.h"

namespace lockstep {

/// All NCCL communicators of one group, in the form that its supervisor needs.
class NcclConnections : public Connections {
 public:
  /// Adds a communicator, whose operations run on `stream`, and which `break_connections` aborts.
  /// @throws NcclAborted  if that was already called
  void add(std::shared_ptr<NcclHandle> handle, std::shared_ptr<NcclStream> stream);

  bool sees_losses() const override { return false; }  // NCCL waits forever for a dead rank on the same host
  std::vector<int> lost_peers() override { return {}; }
  /// Returns when the communicators' kernels have ended, so that nothing writes to the operations' tensors any more.
  void break_connections() noexcept override;
  bool broken() const { return breaking_; }

  /// Blocks until the device has reached `event`, for which `handle` works.
  /// @throws NcclError, NcclAborted, or c10::Error if the device failed. The operation may still write: keep its
  /// tensors
  ///         until `break_connections` has returned
  void wait(const c10::Event& event, NcclHandle& handle) const;

 private:
  const std::chrono::seconds abort_limit_ = nccl_abort_limit();
  std::mutex mutex_;
  std::vector<NcclWorkplace> workplaces_;
  std::atomic<bool> breaking_{false};  // set before any abort: what the device reaches from now on means nothing
};

}  // namespace lockstep

#pragma once

#include <c10/core/Event.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/comm/mesh/connections.h"
#include "lockstep/comm/nccl/nccl_handle.h"

namespace lockstep {

/// All NCCL communicators of one group, in the form that its supervisor needs.
class NcclConnections : public Connections {
 public:
  /// Adds a communicator that `break_connections` aborts. @throws NcclAborted  if that was already called
  void add(std::shared_ptr<NcclHandle> handle);

  bool sees_losses() const override { return false; }  // NCCL waits forever for a dead rank on the same host
  std::vector<int> lost_peers() override { return {}; }
  void break_connections() noexcept override;
  bool broken() const { return broken_; }

  /// Blocks until the device has reached `event`, for which `handle` works.
  /// @throws NcclError, NcclAborted, or c10::Error if the device failed
  void wait(const c10::Event& event, NcclHandle& handle) const;

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<NcclHandle>> handles_;
  std::atomic<bool> broken_{false};
};

}  // namespace lockstep

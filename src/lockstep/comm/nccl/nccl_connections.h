#pragma once

#include <c10/core/Event.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/comm/mesh/connections.h"
#include "lockstep/comm/nccl/nccl_handle.h"

namespace lockstep {

/// All of NCCL's communicators of one group, as its supervisor sees them.
class NcclConnections : public Connections {
 public:
  /// One more that `break_connections` aborts. @throws NcclAborted  where that has come already
  void add(std::shared_ptr<NcclHandle> handle);

  bool sees_losses() const override { return false; }  // between devices of a host NCCL waits for the dead for good
  std::vector<int> lost_peers() override { return {}; }
  void break_connections() noexcept override;
  bool broken() const { return broken_; }

  /// Blocks until the device has reached `event`, which `handle` works towards.
  /// @throws NcclError, NcclAborted, or c10::Error where the device failed
  void wait(const c10::Event& event, NcclHandle& handle) const;

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<NcclHandle>> handles_;
  std::atomic<bool> broken_{false};
};

}  // namespace lockstep

#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/hierarchical/host_layout.h"
#include "lockstep/comm/hierarchical/host_memories.h"
#include "lockstep/comm/mesh/connections.h"

namespace lockstep {

/// The groups that make up a hierarchical one.
struct HostParts : public Connections {
  /// Collective. @throws Error  if a member does not arrive
  explicit HostParts(const Membership& membership);

  const HostLayout layout;
  std::unique_ptr<Communicator> local;  ///< the ranks of this host
  std::unique_ptr<Communicator> lane;   ///< one rank of each host; null on ranks that are in no lane
  std::unique_ptr<Communicator> flat;   ///< all ranks, between hosts: for messages, and for operations without slices
  HostMemories one_copy;                ///< memory of which all ranks of this host have one copy
  HostMemories transient;               ///< the same, and it is there at times
  HostMemories readable;                ///< memory that the ranks of this host read where it lies

  // The parts notice lost connections themselves; the whole group learns of them from their errors, and from the store.
  bool sees_losses() const override { return false; }
  std::vector<int> lost_peers() override { return {}; }
  void break_connections() noexcept override;
};

}  // namespace lockstep

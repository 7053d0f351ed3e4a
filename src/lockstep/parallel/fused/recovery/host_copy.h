#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/fused/recovery/memory_hosts.h"

namespace lockstep {

/// Copies what is in the memories of some hosts to hosts that have joined: each of these gets it from the next host
/// before it in the ring that has it. The ranks of both hosts share out the work.
class HostCopy {
 public:
  /// What is given must outlive this object. Equal on all ranks.
  /// @param have  by host; at least one has it. Empty: all have it
  HostCopy(const MemoryHosts& hosts, std::vector<bool> have, Communicator& communicator);

  bool any_lacks() const;
  bool is_here() const { return has(hosts_.host()); }
  /// `memory`, which lies at the same place of each host's memory, becomes what it is on hosts that have it. Returns
  /// when all of it is there on all hosts. Collective.
  void copy(const at::Tensor& memory) const;

 private:
  bool has(int host) const { return have_.empty() || have_[static_cast<std::size_t>(host)]; }
  int source_of(int host) const;

  const MemoryHosts& hosts_;
  std::vector<bool> have_;
  Communicator& communicator_;
};

}  // namespace lockstep

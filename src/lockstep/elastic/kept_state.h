#pragma once

#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/fused/recovery/update_rescue.h"

namespace lockstep {

/// Where weights and the optimizer's state are when the ranks have changed. Equal on all ranks.
struct KeptState {
  /// In whose memory they stay, as MemoryHosts counts hosts: those with a rank that knows what is there. Others get
  /// them from these. Empty if they do not stay.
  std::vector<bool> hosts;
  bool has_new = false;  ///< some rank takes a lost one's place, and has no state yet
  bool stays() const { return !hosts.empty(); }
};

/// Looks at it. Collective; after all ranks have met.
/// @param can_fuse  this rank can fuse its update for this group  @param is_new  this rank has had no state so far
KeptState find_kept_state(Communicator& group, const UpdateRescue& rescue, bool can_fuse, bool is_new);

}  // namespace lockstep

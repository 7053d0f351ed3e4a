#pragma once

#include <cstdint>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// How the ranks of a group stand to each other, after the group has changed.
struct Standing {
  std::int64_t newest = 0;  ///< the most steps of work that a rank has done
  int source = 0;           ///< the lowest rank that has
  bool all_equal = true;
  bool is_late = false;  ///< that rank has left the loop of the others, and can give its state to nobody
};

/// Compares the ranks' counts. Collective.
/// @param position  steps of work that this rank has done; negative: it has no state yet
/// @throws Error  if no rank has a state
Standing compare_positions(Communicator& group, std::int64_t position, bool is_late);

}  // namespace lockstep

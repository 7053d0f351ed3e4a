#pragma once

#include <cstdint>

#include "lockstep/comm/communicator.h"
#include "lockstep/net/worlds/member_standing.h"

namespace lockstep {

/// Compares the ranks' counts. Collective.
/// @param position  steps of work that this rank has done; negative: it has no state yet
/// @param has_finished  it has left the loop of the others
/// @throws Error  if no rank has a state
Standing compare_positions(Communicator& group, std::int64_t position, bool has_finished);

}  // namespace lockstep

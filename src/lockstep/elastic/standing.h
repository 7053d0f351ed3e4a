#pragma once

#include <cstdint>

#include "lockstep/comm/communicator.h"
#include "lockstep/net/worlds/member_standing.h"

namespace lockstep {

/// Compares the ranks' counts. Collective.
/// @param position  steps of work that this rank has done; negative: it has no state yet
/// @throws Error  if no rank has a state
Standing compare_positions(Communicator& group, std::int64_t position, bool is_late);

}  // namespace lockstep

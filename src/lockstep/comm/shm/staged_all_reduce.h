#pragma once

#include "lockstep/comm/shm/elements.h"
#include "lockstep/comm/shm/group.h"
#include "lockstep/comm/shm/reduce.h"
#include "lockstep/comm/shm/round_protocol.h"

namespace lockstep::shm {

/// All-reduce of elements that other ranks cannot reach, through the staging buffers: a rank copies in what the others
/// reduce, reduces its share of each piece, and copies out what the others reduced. Three pieces are under way at once,
/// and one barrier separates their steps. Buffers stay in the caches, so memory sees about what the way in place costs.
void run_staged_all_reduce(Group& group, RoundProtocol<Group>& rounds, const Call& call, const Elements& elements,
                           Reduction reduction);

}  // namespace lockstep::shm

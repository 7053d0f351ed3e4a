#pragma once

#include <vector>

#include "bench/workers/all_reduce_turn.h"
#include "bench/workers/bare_barrier.h"

namespace lockstep::bench {

/// The ways of the bound of an all-reduce: each of `plain_loops` over as many bytes of this rank's own as the tensor
/// has, and one bare barrier. No all-reduce can do less: a rank reads as many bytes and writes as many, and no rank can
/// end before all have begun. Small sizes are tried with the barrier first as well: a processor may then read ahead
/// while it waits.
/// @param spare  memory as large as `region` for loops that do not work in place; null: without these
std::vector<AllReduceWay> bound_ways(float* region, float* spare, BareBarrier& barrier);

}  // namespace lockstep::bench

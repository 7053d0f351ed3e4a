#pragma once

#include <functional>

#include "lockstep/detail/parallel/distributed_data_parallel_options.h"
#include "lockstep/parallel/wrapper/distributed_replica.h"

namespace lockstep {

/// What DistributedDataParallel::join does: runs `loop`, takes part in the steps of ranks whose loops are longer, and
/// takes over what they have then. Collective. @return  the rank that finished last
int run_uneven_loop(DistributedReplica& replica, const std::function<void()>& loop, const JoinOptions& options);

}  // namespace lockstep

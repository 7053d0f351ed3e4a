#pragma once

#include <memory>
#include <vector>

#include "lockstep/comm/host_memory.h"
#include "lockstep/parallel/fused/memory/fused_memory.h"

namespace lockstep {

/// For ranks that send each other gradients, and weights unless all ranks have one copy. What is given must outlive the
/// result.
/// @param shared  the weights' memory, by bucket, if the ranks of a host have one copy; empty otherwise
std::unique_ptr<FusedMemory> make_message_memory(const UpdatePlan& plan, const std::vector<FusedBucket>& buckets,
                                                 Communicator& communicator, std::vector<HostMemory> shared);

}  // namespace lockstep

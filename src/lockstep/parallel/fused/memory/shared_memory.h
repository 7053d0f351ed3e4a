#pragma once

#include <memory>
#include <vector>

#include "lockstep/parallel/fused/memory/fused_memory.h"

namespace lockstep {

/// For ranks that share one copy of the weights and read each other's gradients where they lie: nothing is moved. What
/// is given must outlive the result.
std::unique_ptr<FusedMemory> make_shared_memory(const std::vector<FusedBucket>& buckets, Communicator& communicator);

}  // namespace lockstep

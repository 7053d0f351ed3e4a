#pragma once

#include <memory>
#include <vector>

#include "lockstep/parallel/fused/memory/fused_memory.h"
#include "lockstep/parallel/fused/update_plan.h"

namespace lockstep {

class Slices;

/// For gradients of slices: the sum that a rank gets is the average over all slices, added in the order of
/// their tree. Weights move as `weights` moves them. What is given must outlive the result.
std::unique_ptr<FusedMemory> make_tree_memory(const UpdatePlan& plan, const std::vector<FusedBucket>& buckets,
                                              const Slices& slices, Communicator& communicator,
                                              std::unique_ptr<FusedMemory> weights);

}  // namespace lockstep

#pragma once

#include <memory>
#include <vector>

#include "lockstep/parallel/backward/backward_context.h"
#include "lockstep/parallel/backward/backward_part.h"
#include "lockstep/parallel/backward/bucket_queue.h"

namespace lockstep {

/// The parts, in the order in which they are called. A fault that explains others comes first: ranks that run different
/// modules differ in everything else as well.
/// @param adds_slices  the backwards are those of slices, and are not synchronised themselves
std::vector<std::unique_ptr<BackwardPart>> make_backward_parts(BackwardContext& context, BucketQueue& queue,
                                                               const ReducerParameters& parameters, bool adds_slices);

}  // namespace lockstep

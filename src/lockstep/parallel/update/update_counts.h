#pragma once

#include "lockstep/parallel/update/update_context.h"

namespace lockstep {

/// Counts a reduction of all fused buckets.
void count_reduction(UpdateContext& context);
/// The update has used the gradients, or was left out.
/// @param waited_s     for other ranks, since it was decided
/// @param was_reduced  in this update, which has not counted that yet
void count_update(UpdateContext& context, double waited_s, bool was_reduced);

}  // namespace lockstep

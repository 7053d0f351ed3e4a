#pragma once

#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/parallel/update/update_context.h"
#include "lockstep/parallel/update/update_part.h"

namespace lockstep {

/// Makes the step on which the ranks have agreed, or leaves it out on all of them: takes the norm, updates what this
/// rank owns, and lets each rank have all weights. Collective.
/// @param was_reduced  gradients were reduced in this step, and nothing has counted that
StepResult make_step(UpdateContext& context, const PartList& parts, bool was_reduced);

}  // namespace lockstep

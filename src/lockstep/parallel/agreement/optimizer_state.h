#pragma once

#include "lockstep/comm/communicator.h"
#include "lockstep/optim/flat_optimizer.h"

namespace lockstep {

/// Names for a journey from one optimizer to the same one elsewhere: numbers, in the order of its groups.
NamedParameters numbered_parameters(const FlatOptimizer& optimizer);

/// The whole state of an optimizer of which each rank may hold a part, on every rank; elsewhere
/// `optimizer.named_state(names)`. Bit for bit what the ranks hold. Collective.
/// @throws Error  if a parameter of the optimizer has no name in `names`, or as the communicator does
NamedState gather_optimizer_state(Communicator& communicator, const FlatOptimizer& optimizer,
                                  const NamedParameters& names);

}  // namespace lockstep

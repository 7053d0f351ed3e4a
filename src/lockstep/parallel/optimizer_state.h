#pragma once

#include "lockstep/comm/communicator.h"
#include "lockstep/optim/flat_optimizer.h"

namespace lockstep {

/// The whole state of an optimizer of which each rank may hold a part, on every rank; elsewhere
/// `optimizer.named_state(names)`. Bit for bit what the ranks hold. Collective.
/// @throws Error  if a parameter of the optimizer has no name in `names`, or as the communicator does
NamedState gather_optimizer_state(Communicator& communicator, const FlatOptimizer& optimizer,
                                  const NamedParameters& names);

}  // namespace lockstep

#pragma once

#include "lockstep/comm/communicator.h"
#include "lockstep/optim/flat_optimizer.h"

namespace lockstep {

/// Names for sending state from one optimizer to its counterpart elsewhere: numbers, in the order of its groups.
NamedParameters numbered_parameters(const FlatOptimizer& optimizer);

/// The whole state of an optimizer, on every rank, if each rank may hold a part of it; otherwise
/// `optimizer.named_state(names)`. Bit for bit what the ranks hold. Collective.
/// @throws Error  if a parameter of the optimizer has no name in `names`, or as the communicator does
NamedState gather_optimizer_state(Communicator& communicator, const FlatOptimizer& optimizer,
                                  const NamedParameters& names);

}  // namespace lockstep

#pragma once

#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/fused/memory/fused_memory.h"
#include "lockstep/parallel/fused/owned_gradients.h"

namespace lockstep {

/// The norm of all ranks' parts together, and of what this rank adds. Collective.
/// @param parts  this rank's
/// @param added  a norm of further gradients; 0 if there are none, or if another rank adds them
/// @param p      not 0; negative: `parts` have gradients alone, no gaps
double norm_over_ranks(Communicator& communicator, FusedMemory& memory, const std::vector<OwnedGradients>& parts,
                       double added, double p);
/// Whether all ranks' parts are finite, and `others` is true on all ranks. Collective.
bool all_finite_over_ranks(Communicator& communicator, FusedMemory& memory, const std::vector<OwnedGradients>& parts,
                           bool others);

}  // namespace lockstep

#pragma once

#include <vector>

#include "lockstep/replicas/gradient_sum.h"

namespace lockstep {

/// Adds up sums whose targets are on a device, in the calling thread: its current streams are those on which backward
/// left the gradients and on which the optimizer will read them, and a thread has nothing to do but to queue kernels.
/// Sources on other devices come over in pieces, so that the target's device holds one piece beside its own gradients.
void add_on_device(std::vector<GradientSum>& sums);

}  // namespace lockstep

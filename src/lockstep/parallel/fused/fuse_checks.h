#pragma once

#include <string>

#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"

namespace lockstep {

/// @return  why the ranks cannot share the work of this optimizer, else empty: it updates a parameter twice in a step,
/// as LibTorch's do if a parameter is listed twice, and a fused update updates each parameter once
std::string refusal_of_twice_listed(const FlatOptimizer& optimizer, const GradientBuckets& gradients);

}  // namespace lockstep

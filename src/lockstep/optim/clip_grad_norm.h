#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep {

/// Scales the gradients of `parameters`, in place, so that the norm of all of them together is at most `max_norm`.
///
/// As torch::nn::utils::clip_grad_norm_, at the speed of memory: one pass that reads, and one that writes only where
/// there is something to clip. FlatOptimizer::step_with does the second one within the update.
///
/// @param norm_type  2, infinity, 0 (the number of gradients) or any other number
/// @return  the norm before clipping; 0 where no parameter has a gradient
/// @throws Error  if `error_if_nonfinite` and the norm is infinite or NaN; the gradients then stand unchanged
double clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm, double norm_type = 2,
                       bool error_if_nonfinite = false);

/// What clip_grad_norm_ multiplies by: max_norm / (norm + 1e-6), at most 1; NaN where the norm is.
double clip_factor(double norm, double max_norm);

}  // namespace lockstep

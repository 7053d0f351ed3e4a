#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

namespace lockstep {

class FlatOptimizer;

/// Scales the gradients of `parameters`, in place, so that the norm of all of them together is at most `max_norm`.
///
/// As torch::nn::utils::clip_grad_norm_, at the speed of memory: one pass that reads, and one that writes only where
/// there is something to clip. FlatOptimizer::step_with does the second one within the update. Sparse gradients are
/// clipped too; LibTorch's own (1.13) leaves them as they are.
///
/// Parameters of a fused optimizer may be among them, as in `clip_grad_norm_(model->parameters(), 1)`. Each rank then
/// holds gradients of its own, and the norm is that of their average: the same on every rank, and so is what they are
/// scaled by. Collective there, with the same list on every rank.
///
/// @param norm_type  2, infinity, 0 (the number of gradients) or any other number
/// @return  the norm before clipping; 0 where no parameter has a gradient
/// @throws Error  if `error_if_nonfinite` and the norm is infinite or NaN; the gradients then stand unchanged
double clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm, double norm_type = 2,
                       bool error_if_nonfinite = false);

/// The same for all parameters of `optimizer`. A fused optimizer clips with less work by StepOptions::max_norm.
double clip_grad_norm_(FlatOptimizer& optimizer, double max_norm, double norm_type = 2,
                       bool error_if_nonfinite = false);

/// Cuts each element of the gradients of `parameters` to [-clip_value, clip_value], in place, as
/// torch::nn::utils::clip_grad_value_.
/// @throws Error  if a fused optimizer is among their owners: its gradients' average exists within its step alone
void clip_grad_value_(const std::vector<at::Tensor>& parameters, double clip_value);

/// @throws Error  where `norm` is infinite or NaN
void check_norm_is_finite(double norm, double norm_type, std::size_t gradients);

/// What clip_grad_norm_ multiplies by: max_norm / (norm + 1e-6), at most 1; NaN where the norm is.
double clip_factor(double norm, double max_norm);

}  // namespace lockstep

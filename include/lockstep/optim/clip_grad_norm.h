#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

namespace lockstep {

class FlatOptimizer;

/// Scales the gradients of `parameters`, in place, so that the norm of all of them together is at most `max_norm`.
///
/// Works as torch::nn::utils::clip_grad_norm_, at the speed of memory: one pass reads the gradients, and a second pass
/// writes them only if there is something to clip. FlatOptimizer::step_with does the second pass within the update.
/// Sparse gradients are clipped too; LibTorch's own function (1.13) leaves them as they are.
///
/// Parameters of a fused optimizer may be in the list, as in `clip_grad_norm_(model->parameters(), 1)`. Each rank then
/// holds its own gradients. The norm is that of the gradients averaged over the ranks; it and the scaling factor are
/// the same on every rank. The call is then collective, with the same list on every rank.
///
/// A parameter that is listed twice counts twice, and is scaled twice, as in LibTorch.
///
/// @param max_norm   at least 0; infinity only measures
/// @param norm_type  2, infinity, -infinity (the smallest magnitude), 0 (the number of gradients) or any other number
/// @return  the norm before clipping; 0 if no parameter has a gradient
/// @throws Error  if `max_norm` is negative or NaN, or `norm_type` is NaN; if `error_if_nonfinite` and the norm is
/// infinite or NaN. The gradients are then unchanged
double clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm, double norm_type = 2,
                       bool error_if_nonfinite = false);

/// Clips all parameters of `optimizer`. For a fused optimizer, StepOptions::max_norm clips with less work.
double clip_grad_norm_(FlatOptimizer& optimizer, double max_norm, double norm_type = 2,
                       bool error_if_nonfinite = false);

/// Clamps each element of the gradients of `parameters` to [-clip_value, clip_value], in place, as
/// torch::nn::utils::clip_grad_value_.
/// @throws Error  if `clip_value` is negative or NaN; if a fused optimizer owns one of them: the average of its
/// gradients exists only within its step
void clip_grad_value_(const std::vector<at::Tensor>& parameters, double clip_value);

/// @throws Error  if `norm` is infinite or NaN
void check_norm_is_finite(double norm, double norm_type, std::size_t gradients);

/// The factor of clip_grad_norm_: max_norm / (norm + 1e-6), at most 1; NaN if `norm` is NaN.
double clip_factor(double norm, double max_norm);

}  // namespace lockstep

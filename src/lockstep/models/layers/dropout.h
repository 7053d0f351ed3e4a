#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/models/layers/dropout_kernel.h"

namespace lockstep {

/// Zeroes each value with probability p and scales the others by 1 / (1 - p) while `is_training`; else gives x back.
///
/// On a CPU the random numbers are a function of position and one number from LibTorch's default generator, which is
/// thirty times faster than drawing each from it: a step of a small BERT spends a tenth of its time there. The same
/// generator state gives the same values, so runs repeat and resume; they are not the values that PyTorch drops. In a
/// replica of DataParallel that one number comes from the replica's own stream (base/random_stream.h).
at::Tensor apply_dropout(const at::Tensor& x, double p, bool is_training);

/// residual + apply_dropout(x), in one pass over memory.
at::Tensor add_dropout(const at::Tensor& x, const at::Tensor& residual, double p, bool is_training);

/// Whether draws can be applied to `x`: a CPU tensor of fp32 or fp64.
bool can_apply_draws(const at::Tensor& x);
/// A new draw, by one number from the default generator, or from the calling thread's random stream.
DropoutDraw draw_dropout(double p);
/// The draw applied to x. Its gradient is the same draw applied to the output's.
at::Tensor apply_draw(const at::Tensor& x, DropoutDraw draw);

}  // namespace lockstep

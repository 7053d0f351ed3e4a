#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/models/layers/dropout_kernel.h"

namespace lockstep {

/// If `is_training`, zeroes each value with probability p and scales the others by 1 / (1 - p); else returns x.
///
/// On a CPU the random numbers are a function of the position and one number from LibTorch's default generator. This is
/// thirty times faster than drawing each value from the generator, which takes a tenth of a step of a small BERT. The
/// same generator state gives the same values, so runs can be repeated and resumed; PyTorch drops other values. In a
/// replica of DataParallel that number comes from the replica's own stream (base/random/random_stream.h).
at::Tensor apply_dropout(const at::Tensor& x, double p, bool is_training);

/// residual + apply_dropout(x), in one pass over memory. For x in bf16 and an fp32 residual the result is fp32.
at::Tensor add_dropout(const at::Tensor& x, const at::Tensor& residual, double p, bool is_training);

/// Whether draws can be applied to `x`: a CPU tensor of fp32, fp64 or bf16.
bool can_apply_draws(const at::Tensor& x);
/// Makes a draw from one number of the default generator, or of the calling thread's random stream.
DropoutDraw draw_dropout(double p);
/// Applies the draw to x. The gradient applies the same draw to the output's gradient.
at::Tensor apply_draw(const at::Tensor& x, DropoutDraw draw);

}  // namespace lockstep

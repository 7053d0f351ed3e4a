#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "lockstep/models/layers/attention.h"
#include "lockstep/models/layers/dropout_kernel.h"

namespace lockstep {

/// Computes attention() by LibTorch's operators one by one, each with its gradient.
/// @param draw  which probabilities to drop; if absent, a draw is made from `options.dropout_p`
at::Tensor composed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const AttentionOptions& options, const std::optional<DropoutDraw>& draw = {});

/// [length, length], true at [i, j] if token i may not see token j.
at::Tensor forbidden_by_causality(std::int64_t length, at::Device device);

/// The lowest finite number of a dtype, which masks scores.
double lowest_number(at::ScalarType dtype);

}  // namespace lockstep

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

/// The same text by text, without masks and bias: for texts of any lengths (see AttentionOptions::starts).
/// @param q  [rows, heads * head_size], or the first token of each text alone: [size, heads * head_size]
/// @param draw  over the probabilities of all texts in one vector (see TextBlocks); if absent, none are dropped
at::Tensor composed_attention_by_text(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                      const AttentionOptions& options, const std::optional<DropoutDraw>& draw);

/// [length, length], true at [i, j] if token i may not see token j.
at::Tensor forbidden_by_causality(std::int64_t length, at::Device device);

/// The lowest finite number of a dtype, which masks scores.
double lowest_number(at::ScalarType dtype);

}  // namespace lockstep

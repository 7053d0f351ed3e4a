#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/models/layers/attention.h"

namespace lockstep {

/// Computes attention() on a CPU in fp32, fp64 or bf16, reading the heads in place. Keeps the probabilities for
/// backward, and recomputes the dropped ones.
at::Tensor packed_attention(const at::Tensor& qkv, const AttentionOptions& options);

/// What attention() gives for the first token of each text, on a CPU, without masks and bias.
/// @param q  queries of the first tokens, [size, heads * head_size]
/// @param k, v  keys and values of all tokens
/// @return  [size, heads * head_size]
at::Tensor first_token_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const AttentionOptions& options);

}  // namespace lockstep

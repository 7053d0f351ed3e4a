#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/models/layers/attention.h"

namespace lockstep {

/// Computes attention() on a CPU in fp32 or fp64, reading the heads in place. Keeps the probabilities for backward, and
/// recomputes the dropped ones.
at::Tensor packed_attention(const at::Tensor& qkv, const AttentionOptions& options);

}  // namespace lockstep

#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/models/layers/attention.h"

namespace lockstep {

/// attention() on a CPU in fp32 or fp64, heads read where they lie. Keeps the probabilities for backward, and computes
/// dropped ones again.
at::Tensor packed_attention(const at::Tensor& qkv, const AttentionOptions& options);

}  // namespace lockstep

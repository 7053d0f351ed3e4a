#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace lockstep {

/// How attention is computed. All layers of a forward pass have the same options, except `scale`.
struct AttentionOptions {
  std::int64_t size = 0;    ///< texts in the batch
  std::int64_t length = 0;  ///< tokens in each text, padding included
  std::int64_t heads = 1;
  double scale = 1;        ///< factor of the scores, before masks
  double dropout_p = 0;    ///< dropout rate of the probabilities; 0 when not training
  bool is_causal = false;  ///< token i sees tokens 0 to i
  bool upcast = false;     ///< compute scores in fp32 for any dtype of the inputs
  at::Tensor mask;         ///< additive, [size, 1, 1, length], or undefined
  at::Tensor bias;         ///< added to the scores and learned, [1, heads, length, length], or undefined
  /// If rows of padding are left out: the row at which each text begins, and the end of the last one. There are no
  /// masks and no bias then. Empty: every text has `length` rows.
  std::vector<std::int64_t> starts;

  std::int64_t first_row(std::int64_t text) const {
    return starts.empty() ? text * length : starts[static_cast<std::size_t>(text)];
  }
  std::int64_t length_of(std::int64_t text) const { return first_row(text + 1) - first_row(text); }
};

/// softmax(scale · q·kᵀ + masks) · v for each head, with Hugging Face's treatment of masks: scores that causality
/// forbids are set to the lowest finite number (and get no gradient), and the additive mask is added to them.
///
/// Uses LibTorch's `scaled_dot_product_attention` if it exists and computes the same. Else, on a CPU in fp32, fp64 and,
/// under autocast, bf16, uses a function of our own that copies no heads and stores no dropped probabilities. Else uses
/// LibTorch's operators one by one.
/// @param qkv  [size * length, 3 * heads * head_size]: queries, keys, values beside each other
/// @return  [size * length, heads * head_size]
at::Tensor attention(const at::Tensor& qkv, const AttentionOptions& options);
/// As above, with queries, keys and values in separate tensors: [size * length, heads * head_size] each.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionOptions& options);

}  // namespace lockstep

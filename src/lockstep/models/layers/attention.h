#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lockstep {

/// How attention is computed; the same for all layers of a forward pass but for `scale`.
struct AttentionOptions {
  std::int64_t size = 0;    ///< texts of the batch
  std::int64_t length = 0;  ///< tokens of each
  std::int64_t heads = 1;
  double scale = 1;        ///< of the scores, before masks
  double dropout_p = 0;    ///< of the probabilities; 0 when not training
  bool is_causal = false;  ///< token i sees tokens 0 to i
  bool upcast = false;     ///< scores in fp32 whatever the dtype of the inputs
  at::Tensor mask;         ///< additive, [size, 1, 1, length], or undefined
};

/// softmax(scale · q·kᵀ + masks) · v for each head, with Hugging Face's treatment of masks: what causality forbids is
/// set to the lowest finite number (and gets no gradient), and the additive mask is added to that.
///
/// LibTorch's `scaled_dot_product_attention` where there is one and it does the same; else, on a CPU in fp32 and fp64,
/// a function of our own that copies no heads and stores no dropped probabilities; else LibTorch's operators one by
/// one.
/// @param qkv  [size * length, 3 * heads * head_size]: queries, keys, values beside each other
/// @return  [size * length, heads * head_size]
at::Tensor attention(const at::Tensor& qkv, const AttentionOptions& options);
/// The same with each apart: [size * length, heads * head_size].
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionOptions& options);

}  // namespace lockstep

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace lockstep {

/// How attention is computed in which several heads of queries share one head of keys and values (Ainslie et al., 2023,
/// arXiv:2305.13245).
struct GroupedAttentionOptions {
  double scale = 1;                    ///< factor of the scores
  double dropout_p = 0;                ///< dropout rate of the probabilities; 0 when not training
  at::Tensor mask;                     ///< additive, [size, 1, 1, keys], or undefined
  std::optional<std::int64_t> window;  ///< a token sees itself and the `window` - 1 tokens before it; default: all
};

/// Attention of each token to itself and those before it. The queries are those of the last tokens of the keys.
/// @param q  [size, queries, heads, head size]
/// @param k, v  [size, keys, key heads, head size]
/// @return  [size * queries, heads * head size]
at::Tensor grouped_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const GroupedAttentionOptions& options);

}  // namespace lockstep

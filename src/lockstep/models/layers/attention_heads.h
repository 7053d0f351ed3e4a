#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/models/layers/attention.h"
#include "lockstep/models/layers/dropout_kernel.h"

namespace lockstep {

/// The heads of queries, keys or values inside a matrix with one row per token (or per text, see first_only).
struct Heads {
  at::Tensor matrix;
  std::int64_t first_column = 0;
};

/// What attention reads, or the gradients of what it read.
struct AttentionHeads {
  Heads q, k, v;
  std::int64_t head_size = 0;
  bool first_only = false;  ///< `q` has one row per text, for its first token
};

/// Scores or probabilities of all texts in one vector: [heads, queries, keys] of each text, behind each other.
class TextBlocks {
 public:
  TextBlocks(const AttentionOptions& options, bool first_only);

  std::int64_t values() const { return begins_.back(); }  ///< of all texts
  /// [heads, queries, keys]
  at::Tensor of_text(const at::Tensor& vector, std::int64_t text) const;
  bool are_equal() const { return options_->starts.empty(); }
  /// [size, heads, queries, keys]; only if are_equal().
  at::Tensor whole(const at::Tensor& vector) const;

 private:
  std::int64_t queries(std::int64_t text) const { return first_only_ ? 1 : options_->length_of(text); }

  const AttentionOptions* options_;
  bool first_only_;
  std::vector<std::int64_t> begins_{0};  // of each text's values, and the end of the last one's
};

struct AttentionResult {
  at::Tensor context;        ///< [queries of all texts, heads * head_size]
  at::Tensor probabilities;  ///< before dropout; see TextBlocks
};

/// Computes attention() on a CPU, reading the heads in place, without a graph for gradients.
AttentionResult attend_heads(const AttentionHeads& heads, const AttentionOptions& options,
                             const std::optional<DropoutDraw>& draw);

/// Writes the gradients of `heads` into the matrices of `d_heads`.
/// @param d_context  contiguous
void attend_heads_backward(const AttentionHeads& heads, const AttentionOptions& options,
                           const std::optional<DropoutDraw>& draw, const at::Tensor& probabilities,
                           const at::Tensor& d_context, const AttentionHeads& d_heads);

/// `values` with those dropped that the draw drops.
/// @param out  may be `values`
at::Tensor drop_by(DropoutDraw draw, const at::Tensor& values, at::Tensor out);

}  // namespace lockstep

#include "lockstep/models/layers/attention_heads.h"

#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "lockstep/models/layers/attention_composed.h"

namespace lockstep {
namespace {

// The heads of one text, [heads, rows, head_size].
class HeadsOfText {
 public:
  HeadsOfText(const AttentionHeads& heads, const AttentionOptions& options, std::int64_t text)
      : heads_(heads), options_(options), text_(text) {}

  at::Tensor q() const { return heads_.first_only ? view(heads_.q, text_, 1) : view_of_tokens(heads_.q); }
  at::Tensor k() const { return view_of_tokens(heads_.k); }
  at::Tensor v() const { return view_of_tokens(heads_.v); }
  /// The part of a matrix that has the rows of the queries.
  at::Tensor of_queries(const at::Tensor& matrix) const {
    return heads_.first_only ? view({matrix}, text_, 1) : view_of_tokens({matrix});
  }

 private:
  at::Tensor view_of_tokens(const Heads& part) const {
    return view(part, options_.first_row(text_), options_.length_of(text_));
  }
  at::Tensor view(const Heads& part, std::int64_t first_row, std::int64_t rows) const {
    const std::int64_t row = part.matrix.stride(0);
    return part.matrix.as_strided({options_.heads, rows, heads_.head_size}, {heads_.head_size, row, 1},
                                  part.matrix.storage_offset() + first_row * row + part.first_column);
  }

  const AttentionHeads& heads_;
  const AttentionOptions& options_;
  std::int64_t text_;
};

// out = alpha · a·b, for each head. For small products LibTorch's baddbmm multiplies the old content of `out` by beta =
// 0, which keeps a NaN; in bf16 some versions take twice as long for it as for bmm.
void multiply(at::Tensor out, const at::Tensor& a, const at::Tensor& b, double alpha = 1) {
  constexpr std::int64_t kSmall = 400;
  const bool is_small = a.size(1) * a.size(2) * b.size(2) < kSmall;
  if (alpha != 1 && !is_small && out.scalar_type() != at::kBFloat16) {
    at::baddbmm_out(out, out, a, b, /*beta=*/0, alpha);
    return;
  }
  at::bmm_out(out, a, b);
  if (alpha != 1) out.mul_(alpha);
}

// An fp32 mask has numbers below the lowest of bf16, which would become infinite.
at::Tensor mask_in(at::ScalarType type, const at::Tensor& mask) {
  return type == at::kBFloat16 ? mask.clamp_min(lowest_number(type)).to(type) : mask;
}

at::Tensor softmax_of(const at::Tensor& scores, const TextBlocks& blocks, std::int64_t texts) {
  if (blocks.are_equal()) return at::_softmax(blocks.whole(scores), -1, false).view({-1});
  at::Tensor result = at::empty_like(scores);
  for (std::int64_t i = 0; i < texts; ++i) {
    at::Tensor block = blocks.of_text(result, i);
    at::_softmax_out(block, blocks.of_text(scores, i), -1, false);
  }
  return result;
}

at::Tensor softmax_gradient(const at::Tensor& dy, const at::Tensor& y, const TextBlocks& blocks, std::int64_t texts) {
  const at::ScalarType type = y.scalar_type();
  if (blocks.are_equal()) {
    return at::_softmax_backward_data(blocks.whole(dy), blocks.whole(y), -1, type).view({-1});
  }
  at::Tensor result = at::empty_like(y);
  for (std::int64_t i = 0; i < texts; ++i) {
    at::Tensor block = blocks.of_text(result, i);
    at::_softmax_backward_data_out(block, blocks.of_text(dy, i), blocks.of_text(y, i), -1, type);
  }
  return result;
}

at::Tensor probabilities_of(const AttentionHeads& heads, const TextBlocks& blocks, const AttentionOptions& o) {
  at::Tensor scores = at::empty({blocks.values()}, heads.q.matrix.options());
  for (std::int64_t i = 0; i < o.size; ++i) {
    const HeadsOfText text(heads, o, i);
    multiply(blocks.of_text(scores, i), text.q(), text.k().transpose(1, 2), o.scale);
  }
  if (o.is_causal) {
    blocks.whole(scores).masked_fill_(forbidden_by_causality(o.length, scores.device()),
                                      lowest_number(scores.scalar_type()));
  }
  if (o.mask.defined()) blocks.whole(scores).add_(mask_in(scores.scalar_type(), o.mask));
  return softmax_of(scores, blocks, o.size);
}

}  // namespace

TextBlocks::TextBlocks(const AttentionOptions& options, bool first_only) : options_(&options), first_only_(first_only) {
  for (std::int64_t i = 0; i < options.size; ++i) {
    begins_.push_back(begins_.back() + options.heads * queries(i) * options.length_of(i));
  }
}

at::Tensor TextBlocks::of_text(const at::Tensor& vector, std::int64_t text) const {
  const std::int64_t begin = begins_[static_cast<std::size_t>(text)], end = begins_[static_cast<std::size_t>(text) + 1];
  return vector.narrow(0, begin, end - begin).view({options_->heads, queries(text), options_->length_of(text)});
}

at::Tensor TextBlocks::whole(const at::Tensor& vector) const {
  return vector.view({options_->size, options_->heads, queries(0), options_->length});
}

AttentionResult attend_heads(const AttentionHeads& heads, const AttentionOptions& o,
                             const std::optional<DropoutDraw>& draw) {
  const TextBlocks blocks(o, heads.first_only);
  AttentionResult result;
  result.probabilities = probabilities_of(heads, blocks, o);
  const at::Tensor kept =
      draw ? drop_by(*draw, result.probabilities, at::empty_like(result.probabilities)) : result.probabilities;
  result.context = at::empty({heads.q.matrix.size(0), o.heads * heads.head_size}, heads.q.matrix.options());
  for (std::int64_t i = 0; i < o.size; ++i) {
    const HeadsOfText text(heads, o, i);
    multiply(text.of_queries(result.context), blocks.of_text(kept, i), text.v());
  }
  return result;
}

void attend_heads_backward(const AttentionHeads& heads, const AttentionOptions& o,
                           const std::optional<DropoutDraw>& draw, const at::Tensor& probabilities,
                           const at::Tensor& d_context, const AttentionHeads& d_heads) {
  const TextBlocks blocks(o, heads.first_only);
  at::Tensor work = at::empty_like(probabilities);
  const at::Tensor kept = draw ? drop_by(*draw, probabilities, work) : probabilities;
  for (std::int64_t i = 0; i < o.size; ++i) {
    const HeadsOfText text(heads, o, i);
    multiply(HeadsOfText(d_heads, o, i).v(), blocks.of_text(kept, i).transpose(1, 2), text.of_queries(d_context));
  }
  for (std::int64_t i = 0; i < o.size; ++i) {
    const HeadsOfText text(heads, o, i);
    multiply(blocks.of_text(work, i), text.of_queries(d_context), text.v().transpose(1, 2));
  }
  if (draw) drop_by(*draw, work, work);
  at::Tensor d_scores = softmax_gradient(work, probabilities, blocks, o.size);
  // If all tokens that a token may see are padding, forbidden tokens have probability too.
  if (o.is_causal && o.mask.defined()) {
    blocks.whole(d_scores).masked_fill_(forbidden_by_causality(o.length, d_scores.device()), 0);
  }
  for (std::int64_t i = 0; i < o.size; ++i) {
    const HeadsOfText text(heads, o, i), d_text(d_heads, o, i);
    multiply(d_text.q(), blocks.of_text(d_scores, i), text.k(), o.scale);
    multiply(d_text.k(), blocks.of_text(d_scores, i).transpose(1, 2), text.q(), o.scale);
  }
}

at::Tensor drop_by(DropoutDraw draw, const at::Tensor& values, at::Tensor out) {
  if (values.scalar_type() == at::kDouble) {
    drop_values(values.data_ptr<double>(), out.data_ptr<double>(), values.numel(), draw);
  } else if (values.scalar_type() == at::kBFloat16) {
    drop_values(values.data_ptr<at::BFloat16>(), out.data_ptr<at::BFloat16>(), values.numel(), draw);
  } else {
    drop_values(values.data_ptr<float>(), out.data_ptr<float>(), values.numel(), draw);
  }
  return out;
}

}  // namespace lockstep

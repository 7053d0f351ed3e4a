#include "lockstep/models/layers/attention_composed.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>

#include <limits>
#include <vector>

#include "lockstep/models/layers/attention_heads.h"
#include "lockstep/models/layers/dropout.h"

namespace lockstep {
namespace {

at::Tensor split_heads(const at::Tensor& x, const AttentionOptions& o) {
  return x.reshape({o.size, o.length, o.heads, -1}).transpose(1, 2);
}

}  // namespace

at::Tensor composed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionOptions& o,
                              const std::optional<DropoutDraw>& draw) {
  const at::ScalarType dtype = o.upcast ? at::kFloat : q.scalar_type();
  const at::Tensor qh = split_heads(q, o).to(dtype), kh = split_heads(k, o).to(dtype);
  at::Tensor scores = at::matmul(qh * o.scale, kh.transpose(2, 3));
  if (o.is_causal) {
    const at::Tensor lowest = at::full({}, lowest_number(scores.scalar_type()), scores.options());
    scores = at::where(forbidden_by_causality(o.length, q.device()), lowest, scores);
  }
  if (o.bias.defined()) scores = scores + o.bias;
  if (o.mask.defined()) scores = scores + o.mask;
  const at::Tensor probabilities = at::softmax(scores, -1).to(v.scalar_type());
  const at::Tensor kept =
      draw ? apply_draw(probabilities, *draw) : apply_dropout(probabilities, o.dropout_p, o.dropout_p > 0);
  return at::matmul(kept, split_heads(v, o)).transpose(1, 2).reshape({o.size * o.length, -1});
}

at::Tensor composed_attention_by_text(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                      const AttentionOptions& o, const std::optional<DropoutDraw>& draw) {
  const bool first_only = q.size(0) != k.size(0);
  const TextBlocks blocks(o, first_only);
  at::Tensor factors;  // 0 for what is dropped
  if (draw) {
    factors = at::ones({blocks.values()}, q.options());
    drop_by(*draw, factors, factors);
  }
  const auto heads_of = [&](const at::Tensor& x, std::int64_t first, std::int64_t rows) {
    return x.narrow(0, first, rows).reshape({rows, o.heads, -1}).transpose(0, 1);
  };
  std::vector<at::Tensor> contexts;
  for (std::int64_t i = 0; i < o.size; ++i) {
    const std::int64_t first = o.first_row(i), rows = o.length_of(i);
    const at::Tensor qh = first_only ? heads_of(q, i, 1) : heads_of(q, first, rows);
    at::Tensor probabilities = at::softmax(at::matmul(qh * o.scale, heads_of(k, first, rows).transpose(1, 2)), -1);
    if (draw) probabilities = probabilities * blocks.of_text(factors, i);
    contexts.push_back(at::matmul(probabilities, heads_of(v, first, rows)).transpose(0, 1).flatten(1));
  }
  return at::cat(contexts);
}

at::Tensor forbidden_by_causality(std::int64_t length, at::Device device) {
  return at::ones({length, length}, at::TensorOptions().dtype(at::kBool).device(device)).triu(1);
}

double lowest_number(at::ScalarType dtype) {
  if (dtype == at::kDouble) return std::numeric_limits<double>::lowest();
  if (dtype == at::kHalf) return -65504;
  return dtype == at::kBFloat16 ? -3.3895313892515355e38 : std::numeric_limits<float>::lowest();
}

}  // namespace lockstep

#include "lockstep/models/attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>
#if __has_include(<ATen/ops/scaled_dot_product_attention.h>)
#include <ATen/ops/scaled_dot_product_attention.h>
#endif

#include <limits>

#include "lockstep/models/layers.h"

namespace lockstep {
namespace {

at::Tensor split_heads(const at::Tensor& x, const AttentionOptions& o) {
  return x.reshape({o.size, o.length, o.heads, -1}).transpose(1, 2);
}

double lowest(at::ScalarType dtype) {
  if (dtype == at::kDouble) return std::numeric_limits<double>::lowest();
  if (dtype == at::kHalf) return -65504;
  return dtype == at::kBFloat16 ? -3.3895313892515355e38 : std::numeric_limits<float>::lowest();
}

at::Tensor composed(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionOptions& o) {
  at::Tensor scores = o.upcast ? at::matmul(q.to(at::kFloat) * o.scale, k.to(at::kFloat).transpose(2, 3))
                               : at::matmul(q * o.scale, k.transpose(2, 3));
  if (o.is_causal) {
    const at::Tensor allowed =
        at::ones({o.length, o.length}, at::TensorOptions().dtype(at::kBool).device(q.device())).tril();
    scores = at::where(allowed, scores, at::full({}, lowest(scores.scalar_type()), scores.options()));
  }
  if (o.mask.defined()) scores = scores + o.mask;
  const at::Tensor probabilities =
      apply_dropout(at::softmax(scores, -1).to(v.scalar_type()), o.dropout_p, o.dropout_p > 0);
  return at::matmul(probabilities, v);
}

#if __has_include(<ATen/ops/scaled_dot_product_attention.h>)
// Rows in which every token is masked differ between the two masks' sums, so causal with padding stays composed.
bool can_fuse(const AttentionOptions& o) { return !o.upcast && !(o.is_causal && o.mask.defined()); }

at::Tensor fused(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionOptions& o) {
  const auto mask = o.mask.defined() ? c10::make_optional(o.mask) : c10::nullopt;
  return at::scaled_dot_product_attention(q, k, v, mask, o.dropout_p, o.is_causal, o.scale);
}
#else
bool can_fuse(const AttentionOptions&) { return false; }
at::Tensor fused(const at::Tensor& q, const at::Tensor&, const at::Tensor&, const AttentionOptions&) { return q; }
#endif

}  // namespace

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionOptions& options) {
  const at::Tensor qh = split_heads(q, options), kh = split_heads(k, options), vh = split_heads(v, options);
  const at::Tensor context = can_fuse(options) ? fused(qh, kh, vh, options) : composed(qh, kh, vh, options);
  return context.transpose(1, 2).reshape({options.size * options.length, -1});
}

}  // namespace lockstep

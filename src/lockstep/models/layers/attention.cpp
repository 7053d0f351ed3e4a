#include "lockstep/models/layers/attention.h"

#include <ATen/TensorOperators.h>
#if __has_include(<ATen/ops/scaled_dot_product_attention.h>)
#include <ATen/ops/scaled_dot_product_attention.h>
#define LOCKSTEP_LIBRARY_ATTENTION 1
#endif

#include <cmath>

#include "lockstep/models/layers/attention_composed.h"
#include "lockstep/models/layers/attention_function.h"
#include "lockstep/models/layers/dense_function.h"

namespace lockstep {
namespace {

#if LOCKSTEP_LIBRARY_ATTENTION
// The library takes texts of one length. If a row has only masked tokens, the library's result differs when both masks
// apply, so causal attention with padding stays composed. With dropout, a CPU would spend more time on the library's
// random numbers than on the rest.
bool library_can(const at::Tensor& q, const AttentionOptions& o) {
  return o.starts.empty() && !o.bias.defined() && !o.upcast && !(o.is_causal && o.mask.defined()) &&
         !(q.device().is_cpu() && o.dropout_p > 0);
}

at::Tensor by_library(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionOptions& o) {
  const auto heads = [&](const at::Tensor& x) { return x.reshape({o.size, o.length, o.heads, -1}).transpose(1, 2); };
  const double to_own_scale = o.scale * std::sqrt(static_cast<double>(q.size(1) / o.heads));
  const bool is_usual = std::abs(to_own_scale - 1) < 1e-12;
  const at::Tensor qh = heads(is_usual ? q : q * to_own_scale);
  const at::Tensor out = o.mask.defined()
                             ? at::scaled_dot_product_attention(qh, heads(k), heads(v), o.mask, o.dropout_p, false)
                             : at::scaled_dot_product_attention(qh, heads(k), heads(v), {}, o.dropout_p, o.is_causal);
  return out.transpose(1, 2).reshape({o.size * o.length, -1});
}
#endif

}  // namespace

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionOptions& options) {
#if LOCKSTEP_LIBRARY_ATTENTION
  if (library_can(q, options)) return by_library(q, k, v, options);
#endif
  return composed_attention(q, k, v, options);
}

at::Tensor attention(const at::Tensor& qkv, const AttentionOptions& options) {
#if LOCKSTEP_LIBRARY_ATTENTION
  const bool is_left_to_us = !library_can(qkv, options);
#else
  constexpr bool is_left_to_us = true;
#endif
  const bool has_type = !options.bias.defined() && shortcut_type(qkv) == qkv.scalar_type() &&
                        !(options.upcast && qkv.scalar_type() == at::kBFloat16);
  if (is_left_to_us && has_type) return packed_attention(qkv.contiguous(), options);
  const std::int64_t size = qkv.size(1) / 3;
  return attention(qkv.narrow(1, 0, size), qkv.narrow(1, size, size), qkv.narrow(1, 2 * size, size), options);
}

}  // namespace lockstep

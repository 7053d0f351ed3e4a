#include "lockstep/models/rotary/grouped_attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>

#include "lockstep/models/layers/attention.h"
#include "lockstep/models/layers/attention_composed.h"
#include "lockstep/models/layers/dropout.h"

namespace lockstep {
namespace {

bool sees_all(const GroupedAttentionOptions& o, std::int64_t keys) { return !o.window || *o.window >= keys; }

// [queries, keys], true at a key that the query may not see: one behind it, or out of its window.
at::Tensor forbidden_keys(std::int64_t queries, std::int64_t keys, const GroupedAttentionOptions& o,
                          at::Device device) {
  const auto options = at::TensorOptions().dtype(at::kLong).device(device);
  const at::Tensor key = at::arange(keys, options).unsqueeze(0);
  const at::Tensor query = at::arange(keys - queries, keys, options).unsqueeze(1);
  const at::Tensor is_behind = key.gt(query);
  return sees_all(o, keys) ? is_behind : is_behind.logical_or(key.le(query - *o.window));
}

// Each head of keys or values for all the heads that share it.
at::Tensor for_each_head(const at::Tensor& x, std::int64_t heads) {
  const std::int64_t group = heads / x.size(2);
  if (group == 1) return x;
  return x.unsqueeze(3).expand({x.size(0), x.size(1), x.size(2), group, x.size(3)}).flatten(2, 3);
}

// All tokens attend to all before them: attention() knows the fastest way.
at::Tensor of_whole_texts(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const GroupedAttentionOptions& o) {
  AttentionOptions options;
  options.size = q.size(0);
  options.length = q.size(1);
  options.heads = q.size(2);
  options.scale = o.scale;
  options.dropout_p = o.dropout_p;
  options.is_causal = true;
  options.mask = o.mask;
  const auto rows = [&](const at::Tensor& x) { return for_each_head(x, q.size(2)).flatten(2).flatten(0, 1); };
  return attention(at::cat({rows(q), rows(k), rows(v)}, 1), options);
}

}  // namespace

at::Tensor grouped_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const GroupedAttentionOptions& o) {
  const std::int64_t size = q.size(0), queries = q.size(1), heads = q.size(2), keys = k.size(1);
  if (queries == keys && sees_all(o, keys)) return of_whole_texts(q, k, v, o);
  const std::int64_t shared = k.size(2), group = heads / shared;
  // The queries of a group lie above each other, so that no keys are copied: [size, shared, group * queries, head
  // size].
  const at::Tensor grouped =
      (q * o.scale).view({size, queries, shared, group, -1}).permute({0, 2, 3, 1, 4}).flatten(2, 3);
  at::Tensor scores = at::matmul(grouped, k.permute({0, 2, 3, 1})).view({size, shared, group, queries, keys});
  scores = scores.masked_fill(forbidden_keys(queries, keys, o, q.device()), lowest_number(scores.scalar_type()));
  if (o.mask.defined()) scores = scores + o.mask.unsqueeze(1);
  const at::Tensor kept = apply_dropout(at::softmax(scores, -1), o.dropout_p, o.dropout_p > 0).to(v.scalar_type());
  const at::Tensor context = at::matmul(kept.flatten(2, 3), v.transpose(1, 2)).view({size, shared, group, queries, -1});
  return context.permute({0, 3, 1, 2, 4}).reshape({size * queries, -1});
}

}  // namespace lockstep

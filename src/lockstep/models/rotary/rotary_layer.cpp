#include "lockstep/models/rotary/rotary_layer.h"

#include <ATen/TensorOperators.h>

#include <cmath>

#include "lockstep/models/layers/dropout.h"
#include "lockstep/models/rotary/grouped_attention.h"

namespace lockstep {

RotaryLayer::RotaryLayer(const RotarySettings& s, const RotaryLayout& layout, std::size_t index)
    : Module(layout.layer),
      head_size_(s.head_size()),
      dropout_(s.attention_dropout),
      rotates_(layer_rotates(s, layout, index)),
      activation_(s.hidden_act) {
  if (layer_slides(s, layout, index)) window_ = s.sliding_window;
  const std::int64_t queries = s.num_attention_heads * head_size_, keys = s.key_value_heads() * head_size_;
  const bool has_query_biases = layout.has_query_biases || s.attention_bias;
  const auto attention = register_module("self_attn", std::make_shared<Scope>());
  query_ = attention->add("q_proj", std::make_shared<Dense>(s.hidden_size, queries, has_query_biases));
  key_ = attention->add("k_proj", std::make_shared<Dense>(s.hidden_size, keys, has_query_biases));
  value_ = attention->add("v_proj", std::make_shared<Dense>(s.hidden_size, keys, has_query_biases));
  attention_output_ = attention->add("o_proj", std::make_shared<Dense>(queries, s.hidden_size, s.attention_bias));
  if (layout.normalizes_heads) {
    query_norm_ = attention->add("q_norm", std::make_shared<RmsNorm>(head_size_, s.rms_norm_eps));
    key_norm_ = attention->add("k_norm", std::make_shared<RmsNorm>(head_size_, s.rms_norm_eps));
  }
  const auto mlp = register_module("mlp", std::make_shared<Scope>());
  gate_ = mlp->add("gate_proj", std::make_shared<Dense>(s.hidden_size, s.intermediate_size, s.mlp_bias));
  up_ = mlp->add("up_proj", std::make_shared<Dense>(s.hidden_size, s.intermediate_size, s.mlp_bias));
  down_ = mlp->add("down_proj", std::make_shared<Dense>(s.intermediate_size, s.hidden_size, s.mlp_bias));
  norm_1_ = register_module("input_layernorm", std::make_shared<RmsNorm>(s.hidden_size, s.rms_norm_eps));
  norm_2_ = register_module("post_attention_layernorm", std::make_shared<RmsNorm>(s.hidden_size, s.rms_norm_eps));
}

at::Tensor RotaryLayer::attend(const at::Tensor& x, const RotaryPass& pass, KeyValueCache::Layer* cache) const {
  const auto heads = [&](const at::Tensor& rows) { return rows.view({pass.size, pass.length, -1, head_size_}); };
  const at::Tensor values = heads(value_->forward(x));
  const auto turned = [&](const Dense& projection, const std::shared_ptr<RmsNorm>& norm) {
    const at::Tensor rows = heads(projection.forward(x));
    const at::Tensor normalized = norm ? norm->forward(rows) : rows;
    return (rotates_ ? rotate(normalized, pass.rotation) : normalized).to(values.scalar_type());
  };
  const at::Tensor queries = turned(*query_, query_norm_), keys = turned(*key_, key_norm_);
  GroupedAttentionOptions options;
  options.scale = 1 / std::sqrt(static_cast<double>(head_size_));
  options.dropout_p = is_training() ? dropout_ : 0;
  options.mask = pass.mask;
  options.window = window_;
  if (cache == nullptr) return grouped_attention(queries, keys, values, options);
  const auto all = cache->append(keys, values);
  return grouped_attention(queries, all.keys, all.values, options);
}

at::Tensor RotaryLayer::forward(const at::Tensor& x, const RotaryPass& pass, KeyValueCache::Layer* cache) const {
  const at::Tensor context = attention_output_->forward(attend(norm_1_->forward(x), pass, cache));
  const at::Tensor attended = add_dropout(context, x, 0, is_training());
  const at::Tensor normalized = norm_2_->forward(attended);
  const at::Tensor inner = activate(activation_, gate_->forward(normalized)) * up_->forward(normalized);
  return add_dropout(down_->forward(inner), attended, 0, is_training());
}

}  // namespace lockstep

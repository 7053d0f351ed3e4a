#include "lockstep/models/gpt2/gpt2_block.h"

#include <cmath>

#include "lockstep/models/layers/dropout.h"

namespace lockstep {
namespace {

double scale_of(const GPT2Config& c, std::int64_t index) {
  const double by_size = c.scale_attn_weights ? std::sqrt(static_cast<double>(c.n_embd / c.n_head)) : 1;
  return 1 / by_size / (c.scale_attn_by_inverse_layer_idx ? static_cast<double>(index + 1) : 1);
}

}  // namespace

GPT2Block::GPT2Block(const GPT2Config& c, std::int64_t index)
    : heads_(c.n_head),
      scale_(scale_of(c, index)),
      attention_dropout_(c.attn_pdrop),
      residual_dropout_(c.resid_pdrop),
      upcasts_(c.reorder_and_upcast_attn),
      activation_(c.activation_function) {
  const std::int64_t inner = c.n_inner.value_or(4 * c.n_embd);
  norm_1_ = register_module("ln_1", std::make_shared<Norm>(c.n_embd, c.layer_norm_epsilon));
  const auto attention = register_module("attn", std::make_shared<Scope>());
  query_key_value_ = attention->add("c_attn", std::make_shared<TransposedDense>(c.n_embd, 3 * c.n_embd));
  attention_output_ = attention->add("c_proj", std::make_shared<TransposedDense>(c.n_embd, c.n_embd));
  norm_2_ = register_module("ln_2", std::make_shared<Norm>(c.n_embd, c.layer_norm_epsilon));
  const auto mlp = register_module("mlp", std::make_shared<Scope>());
  intermediate_ = mlp->add("c_fc", std::make_shared<TransposedDense>(c.n_embd, inner));
  output_ = mlp->add("c_proj", std::make_shared<TransposedDense>(inner, c.n_embd));
}

at::Tensor GPT2Block::attend(const at::Tensor& x, const AttentionOptions& options) const {
  return attention_output_->forward(attention(query_key_value_->forward(x), options));
}

at::Tensor GPT2Block::forward(const at::Tensor& x, AttentionOptions options) const {
  options.heads = heads_;
  options.scale = scale_;
  options.dropout_p = is_training() ? attention_dropout_ : 0;
  options.is_causal = true;
  options.upcast = upcasts_;
  const at::Tensor attended = add_dropout(attend(norm_1_->forward(x), options), x, residual_dropout_, is_training());
  const at::Tensor inner = activate(activation_, intermediate_->forward(norm_2_->forward(attended)));
  return add_dropout(output_->forward(inner), attended, residual_dropout_, is_training());
}

}  // namespace lockstep

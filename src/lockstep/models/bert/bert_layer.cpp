#include "lockstep/models/bert/bert_layer.h"

#include <ATen/TensorOperators.h>
#include <cmath>

#include "lockstep/models/layers/activation_checkpoint.h"
#include "lockstep/models/layers/dense_function.h"
#include "lockstep/models/layers/dropout.h"

namespace lockstep {
BertResidual::BertResidual(std::int64_t in, const BertConfig& c)
    : dropout_(c.hidden_dropout_prob),
      dense_(register_module("dense", std::make_shared<Dense>(in, c.hidden_size))),
      norm_(register_module("LayerNorm", std::make_shared<Norm>(c.hidden_size, c.layer_norm_eps))) {}

at::Tensor BertResidual::forward(const at::Tensor& x, const at::Tensor& residual) const {
  return norm_->forward(add_dropout(dense_->forward(x), residual, dropout_, is_training()));
}

BertLayer::BertLayer(const BertConfig& c) : activation_(c.hidden_act) {
  const auto attention = register_module("attention", std::make_shared<Scope>());
  const auto self = attention->add("self", std::make_shared<Scope>());
  query_ = self->add("query", std::make_shared<Dense>(c.hidden_size, c.hidden_size));
  key_ = self->add("key", std::make_shared<Dense>(c.hidden_size, c.hidden_size));
  value_ = self->add("value", std::make_shared<Dense>(c.hidden_size, c.hidden_size));
  attention_output_ = attention->add("output", std::make_shared<BertResidual>(c.hidden_size, c));
  const auto intermediate = register_module("intermediate", std::make_shared<Scope>());
  intermediate_ = intermediate->add("dense", std::make_shared<Dense>(c.hidden_size, c.intermediate_size));
  output_ = register_module("output", std::make_shared<BertResidual>(c.intermediate_size, c));
}

at::Tensor BertLayer::attend(const at::Tensor& x, const AttentionOptions& options) const {
  if (!shortcut_type(x)) return attention(query_->forward(x), key_->forward(x), value_->forward(x), options);
  return attention(dense_beside(x, {query_->weight(), key_->weight(), value_->weight()},
                                {query_->bias(), key_->bias(), value_->bias()}),
                   options);
}

at::Tensor BertLayer::forward(const at::Tensor& x, const AttentionOptions& options) const {
  const at::Tensor context = attend(x, options);
  const at::Tensor attended = attention_output_->forward(context, x);
  return output_->forward(activate(activation_, intermediate_->forward(attended)), attended);
}

BertEncoder::BertEncoder(const BertConfig& c)
    : heads_(c.num_attention_heads),
      scale_(1 / std::sqrt(static_cast<double>(c.hidden_size / c.num_attention_heads))),
      dropout_(c.attention_probs_dropout_prob),
      is_checkpointed_(c.gradient_checkpointing) {
  const auto scope = register_module("layer", std::make_shared<Scope>());
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    layers_.push_back(scope->add(std::to_string(i), std::make_shared<BertLayer>(c)));
  }
}

at::Tensor BertEncoder::forward(const at::Tensor& x, AttentionOptions options) const {
  options.heads = heads_;
  options.scale = scale_;
  options.dropout_p = is_training() ? dropout_ : 0;
  at::Tensor hidden = x;
  for (const std::shared_ptr<BertLayer>& layer : layers_) {
    hidden = is_checkpointed_ && is_training()
                 ? checkpoint_activations([=](const at::Tensor& in) { return layer->forward(in, options); }, hidden)
                 : layer->forward(hidden, options);
  }
  return hidden;
}

}  // namespace lockstep

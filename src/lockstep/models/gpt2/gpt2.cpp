#include "lockstep/models/gpt2.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include "lockstep/models/gpt2/gpt2_block.h"
#include "lockstep/models/layers/activation_checkpoint.h"
#include "lockstep/models/layers/dropout.h"
#include "lockstep/models/layers/layers.h"
#include "lockstep/models/pretrained_model_bodies.h"

namespace lockstep {

GPT2ModelImpl::GPT2ModelImpl(const GPT2Config& config, InitialWeights weights) : PretrainedModule(config) {
  config.check(kArchitecture);
  words_ = register_module("wte", std::make_shared<Embedding>(config.vocab_size, config.n_embd));
  positions_ = register_module("wpe", std::make_shared<Embedding>(config.n_positions, config.n_embd));
  const auto scope = register_module("h", std::make_shared<Scope>());
  for (std::int64_t i = 0; i < config.n_layer; ++i) {
    blocks_.push_back(scope->add(std::to_string(i), std::make_shared<GPT2Block>(config, i)));
  }
  norm_ = register_module("ln_f", std::make_shared<Norm>(config.n_embd, config.layer_norm_epsilon));
  fill(weights);
}

GPT2ModelImpl::~GPT2ModelImpl() = default;

at::Tensor GPT2ModelImpl::embed(const TokenInputs& inputs) const {
  const auto options = at::TensorOptions().dtype(at::kLong).device(inputs.input_ids.device());
  const at::Tensor positions =
      inputs.position_ids.defined() ? inputs.position_ids : at::arange(inputs.input_ids.size(1), options).unsqueeze(0);
  at::Tensor sum = words_->forward(inputs.input_ids) + positions_->forward(positions);
  if (inputs.token_type_ids.defined()) sum = sum + words_->forward(inputs.token_type_ids);
  return apply_dropout(sum.flatten(0, 1), config().embd_pdrop, is_training());
}

at::Tensor GPT2ModelImpl::forward(const TokenInputs& inputs) {
  check_token_inputs(inputs, {config().vocab_size, config().n_positions, 0}, kArchitecture);
  AttentionOptions options;
  options.size = inputs.input_ids.size(0);
  options.length = inputs.input_ids.size(1);
  options.mask = additive_mask(inputs.attention_mask, words_->weight().scalar_type());
  at::Tensor hidden = embed(inputs);
  for (const std::shared_ptr<GPT2Block>& block : blocks_) {
    hidden = config().gradient_checkpointing && is_training()
                 ? checkpoint_activations([=](const at::Tensor& x) { return block->forward(x, options); }, hidden)
                 : block->forward(hidden, options);
  }
  return norm_->forward(hidden).view({options.size, options.length, config().n_embd});
}

template class PretrainedModule<GPT2ModelImpl, GPT2Config, torch::nn::Module>;

}  // namespace lockstep

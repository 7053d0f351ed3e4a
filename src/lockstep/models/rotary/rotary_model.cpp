#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/models/layers/activation_checkpoint.h"
#include "lockstep/models/rotary/rotary_bodies.h"
#include "lockstep/models/rotary/rotary_layer.h"

namespace lockstep {
namespace {

void require_room(std::int64_t known, std::int64_t added, std::int64_t positions, const char* model) {
  if (known + added <= positions) return;
  throw Error(fmt::format("{} tokens after {} are too many: the model has {} positions", added, known, positions),
              model, fmt::format("end the text at {} tokens", positions));
}

}  // namespace

template <typename Family>
RotaryModelImpl<Family>::RotaryModelImpl(const RotaryConfig<Family>& config, InitialWeights weights)
    : PretrainedModule<RotaryModelImpl, RotaryConfig<Family>, torch::nn::Module>(config) {
  config.check(kArchitecture);
  words_ = this->register_module("embed_tokens", std::make_shared<Embedding>(config.vocab_size, config.hidden_size,
                                                                             config.pad_token_id.value_or(-1)));
  const auto scope = this->register_module("layers", std::make_shared<Scope>());
  for (std::size_t i = 0; i < static_cast<std::size_t>(config.num_hidden_layers); ++i) {
    layers_.push_back(
        scope->add(std::to_string(i), std::make_shared<RotaryLayer>(config, rotary_layout_of<Family>(), i)));
  }
  norm_ = this->register_module("norm", std::make_shared<RmsNorm>(config.hidden_size, config.rms_norm_eps));
  this->fill(weights);
}

template <typename Family>
RotaryModelImpl<Family>::~RotaryModelImpl() = default;

template <typename Family>
at::Tensor RotaryModelImpl<Family>::run_layers(const TokenInputs& inputs, KeyValueCache* cache) {
  const RotaryConfig<Family>& config = this->config();
  RotaryPass pass;
  pass.size = inputs.input_ids.size(0);
  pass.length = inputs.input_ids.size(1);
  pass.mask = additive_mask(inputs.attention_mask, words_->weight().scalar_type());
  pass.rotation = rotation_of(config, inputs.position_ids);
  const bool recomputes = config.gradient_checkpointing && this->is_training() && cache == nullptr;
  at::Tensor hidden = words_->forward(inputs.input_ids).flatten(0, 1);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const std::shared_ptr<RotaryLayer>& layer = layers_[i];
    hidden = recomputes
                 ? checkpoint_activations([=](const at::Tensor& x) { return layer->forward(x, pass, nullptr); }, hidden)
                 : layer->forward(hidden, pass, cache == nullptr ? nullptr : &cache->layer(i));
  }
  return norm_->forward(hidden).view({pass.size, pass.length, config.hidden_size});
}

template <typename Family>
at::Tensor RotaryModelImpl<Family>::forward(const TokenInputs& inputs) {
  check_token_inputs(inputs, {this->config().vocab_size, this->config().max_position_embeddings, -1}, kArchitecture);
  TokenInputs placed = inputs;
  if (!placed.position_ids.defined()) {
    placed.position_ids = at::arange(inputs.input_ids.size(1), inputs.input_ids.options()).unsqueeze(0);
  }
  return run_layers(placed, nullptr);
}

template <typename Family>
at::Tensor RotaryModelImpl<Family>::forward_cached(const at::Tensor& input_ids, KeyValueCache& cache) {
  const at::NoGradGuard no_grad;
  TokenInputs inputs;
  inputs.input_ids = input_ids;
  const std::int64_t positions = this->config().max_position_embeddings;
  check_token_inputs(inputs, {this->config().vocab_size, positions, -1}, kArchitecture);
  const std::int64_t known = cache.length(), added = input_ids.size(1);
  require_room(known, added, positions, kArchitecture);
  inputs.position_ids = at::arange(known, known + added, input_ids.options()).unsqueeze(0);
  return run_layers(inputs, &cache);
}

template class PretrainedModule<LlamaModelImpl, LlamaConfig, torch::nn::Module>;
template class PretrainedModule<Qwen2ModelImpl, Qwen2Config, torch::nn::Module>;
template class PretrainedModule<Qwen3ModelImpl, Qwen3Config, torch::nn::Module>;
template class PretrainedModule<MistralModelImpl, MistralConfig, torch::nn::Module>;
template class PretrainedModule<SmolLM3ModelImpl, SmolLM3Config, torch::nn::Module>;
template class RotaryModelImpl<Llama>;
template class RotaryModelImpl<Qwen2>;
template class RotaryModelImpl<Qwen3>;
template class RotaryModelImpl<Mistral>;
template class RotaryModelImpl<SmolLM3>;

}  // namespace lockstep

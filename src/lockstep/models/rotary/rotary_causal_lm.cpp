#include <ATen/core/grad_mode.h>

#include "lockstep/models/layers/dense_function.h"
#include "lockstep/models/next_token_loss.h"
#include "lockstep/models/rotary/rotary_bodies.h"

namespace lockstep {

template <typename Family>
RotaryForCausalLMImpl<Family>::RotaryForCausalLMImpl(const RotaryConfig<Family>& config, InitialWeights weights)
    : PretrainedTextModel<RotaryForCausalLMImpl, RotaryConfig<Family>>(config),
      model_(this->register_module("model", std::make_shared<RotaryModelImpl<Family>>(config, InitialWeights::Unset))) {
  if (!config.tie_word_embeddings) {
    head_ = this->register_module("lm_head", std::make_shared<Dense>(config.hidden_size, config.vocab_size, false));
  }
  this->fill(weights);
}

template <typename Family>
at::Tensor RotaryForCausalLMImpl<Family>::scores(const at::Tensor& rows) const {
  const at::Tensor& weight = head_ ? head_->weight() : model_->word_embeddings().weight();
  return dense(rows, weight, {}, WeightLayout::OutIn);
}

template <typename Family>
at::Tensor RotaryForCausalLMImpl<Family>::forward(const TokenInputs& inputs) {
  const at::Tensor hidden = model_->forward(inputs);
  return scores(hidden.flatten(0, 1)).view({hidden.size(0), hidden.size(1), -1});
}

template <typename Family>
at::Tensor RotaryForCausalLMImpl<Family>::next_scores(const at::Tensor& input_ids, KeyValueCache& cache) {
  const at::NoGradGuard no_grad;
  return scores(model_->forward_cached(input_ids, cache).select(1, -1));
}

template <typename Family>
Batch RotaryForCausalLMImpl<Family>::random_batch(const RandomBatchOptions& options) const {
  const RotaryConfig<Family>& config = this->config();
  return random_texts_to_predict(options, config.vocab_size, config.max_position_embeddings,
                                 config.pad_token_id.value_or(config.vocab_size - 1), kArchitecture);
}

template <typename Family>
LossSum RotaryForCausalLMImpl<Family>::loss(const at::Tensor& output, const Batch& batch) const {
  return smoothed_loss(output, batch, 0);
}

template <typename Family>
LossSum RotaryForCausalLMImpl<Family>::smoothed_loss(const at::Tensor& output, const Batch& batch,
                                                     double factor) const {
  return next_token_loss(output, this->field(batch, "labels"), kArchitecture, factor);
}

template class PretrainedModule<LlamaForCausalLMImpl, LlamaConfig, Model>;
template class PretrainedModule<Qwen2ForCausalLMImpl, Qwen2Config, Model>;
template class PretrainedModule<Qwen3ForCausalLMImpl, Qwen3Config, Model>;
template class PretrainedModule<MistralForCausalLMImpl, MistralConfig, Model>;
template class PretrainedModule<SmolLM3ForCausalLMImpl, SmolLM3Config, Model>;
template class PretrainedTextModel<LlamaForCausalLMImpl, LlamaConfig>;
template class PretrainedTextModel<Qwen2ForCausalLMImpl, Qwen2Config>;
template class PretrainedTextModel<Qwen3ForCausalLMImpl, Qwen3Config>;
template class PretrainedTextModel<MistralForCausalLMImpl, MistralConfig>;
template class PretrainedTextModel<SmolLM3ForCausalLMImpl, SmolLM3Config>;
template class RotaryForCausalLMImpl<Llama>;
template class RotaryForCausalLMImpl<Qwen2>;
template class RotaryForCausalLMImpl<Qwen3>;
template class RotaryForCausalLMImpl<Mistral>;
template class RotaryForCausalLMImpl<SmolLM3>;

}  // namespace lockstep

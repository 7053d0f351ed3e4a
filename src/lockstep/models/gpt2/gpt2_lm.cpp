#include "lockstep/models/gpt2.h"
#include "lockstep/models/layers/dense_function.h"
#include "lockstep/models/layers/layers.h"
#include "lockstep/models/next_token_loss.h"
#include "lockstep/models/pretrained_model_bodies.h"

namespace lockstep {

GPT2LMHeadModelImpl::GPT2LMHeadModelImpl(const GPT2Config& config, InitialWeights weights)
    : PretrainedTextModel(config),
      transformer_(register_module("transformer", std::make_shared<GPT2ModelImpl>(config, InitialWeights::Unset))) {
  if (!config.tie_word_embeddings) {
    head_ = register_module("lm_head", std::make_shared<Dense>(config.n_embd, config.vocab_size, false));
  }
  fill(weights);
}

at::Tensor GPT2LMHeadModelImpl::forward(const TokenInputs& inputs) {
  const at::Tensor hidden = transformer_->forward(inputs);
  const at::Tensor& weight = head_ ? head_->weight() : transformer_->word_embeddings().weight();
  const at::Tensor scores = dense(hidden.flatten(0, 1), weight, {}, WeightLayout::OutIn);
  return scores.view({hidden.size(0), hidden.size(1), -1});
}

Batch GPT2LMHeadModelImpl::random_batch(const RandomBatchOptions& options) const {
  return random_texts_to_predict(options, config().vocab_size, config().n_positions,
                                 config().pad_token_id.value_or(config().vocab_size - 1), kArchitecture);
}

LossSum GPT2LMHeadModelImpl::loss(const at::Tensor& output, const Batch& batch) const {
  return smoothed_loss(output, batch, 0);
}

LossSum GPT2LMHeadModelImpl::smoothed_loss(const at::Tensor& output, const Batch& batch, double factor) const {
  return next_token_loss(output, field(batch, "labels"), kArchitecture, factor);
}

template class PretrainedModule<GPT2LMHeadModelImpl, GPT2Config, Model>;
template class PretrainedTextModel<GPT2LMHeadModelImpl, GPT2Config>;

}  // namespace lockstep

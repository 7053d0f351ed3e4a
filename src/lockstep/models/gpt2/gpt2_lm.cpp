#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>

#include "lockstep/models/gpt2.h"
#include "lockstep/models/layers/dense_function.h"
#include "lockstep/models/layers/layers.h"
#include "lockstep/models/loss.h"
#include "lockstep/models/pretrained_model_bodies.h"
#include "lockstep/models/token_batch.h"

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
  Batch batch = random_texts(options, config().vocab_size, config().n_positions,
                             config().pad_token_id.value_or(config().vocab_size - 1), kArchitecture);
  batch["labels"] = batch["input_ids"].masked_fill(batch["attention_mask"].eq(0), kIgnoreIndex);
  return batch;
}

LossSum GPT2LMHeadModelImpl::loss(const at::Tensor& output, const Batch& batch) const {
  return smoothed_loss(output, batch, 0);
}

LossSum GPT2LMHeadModelImpl::smoothed_loss(const at::Tensor& output, const Batch& batch, double factor) const {
  // Token i predicts token i + 1. Moving the labels leaves the scores, which are large, where they are.
  const at::Tensor& labels = field(batch, "labels");
  const at::Tensor last = at::full({labels.size(0), 1}, kIgnoreIndex, labels.options());
  const at::Tensor next = at::cat({labels.slice(1, 1), last}, 1);
  return cross_entropy_sum(output.flatten(0, -2), next.flatten(), kArchitecture, factor);
}

template class PretrainedModule<GPT2LMHeadModelImpl, GPT2Config, Model>;
template class PretrainedTextModel<GPT2LMHeadModelImpl, GPT2Config>;

}  // namespace lockstep

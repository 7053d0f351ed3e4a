#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/models/gpt2.h"
#include "lockstep/models/layers/layers.h"
#include "lockstep/models/pretrained_model_bodies.h"
#include "lockstep/models/random_tensors.h"
#include "lockstep/models/token_batch.h"

namespace lockstep {
namespace {

// The column of each row's last token that is not padding; 0 if all tokens are padding.
at::Tensor last_tokens(const at::Tensor& ids, const std::optional<std::int64_t>& pad_token_id) {
  if (pad_token_id) {
    const at::Tensor columns = at::arange(ids.size(1), ids.options());
    return ids.ne(*pad_token_id).mul(columns).argmax(1);
  }
  if (ids.size(0) == 1) return at::full({1}, ids.size(1) - 1, ids.options());
  throw Error(fmt::format("a batch of {} texts cannot be padded: there is no padding token", ids.size(0)),
              std::string(GPT2ForSequenceClassificationImpl::kArchitecture) + ", field \"pad_token_id\" of config.json",
              "set pad_token_id (the end-of-text token will do: 50256 in GPT-2), or give one text at a time");
}

}  // namespace

GPT2ForSequenceClassificationImpl::GPT2ForSequenceClassificationImpl(const GPT2Config& config, InitialWeights weights)
    : PretrainedTextModel(config),
      transformer_(register_module("transformer", std::make_shared<GPT2ModelImpl>(config, InitialWeights::Unset))),
      score_(register_module("score", std::make_shared<Dense>(config.n_embd, config.head.num_labels(), false))) {
  fill(weights);
}

at::Tensor GPT2ForSequenceClassificationImpl::forward(const TokenInputs& inputs) {
  const at::Tensor hidden = transformer_->forward(inputs);
  const at::Tensor rows = at::arange(hidden.size(0), inputs.input_ids.options());
  // Only the tokens that count are scored.
  return score_->forward(hidden.index({rows, last_tokens(inputs.input_ids, config().pad_token_id)}));
}

Batch GPT2ForSequenceClassificationImpl::random_batch(const RandomBatchOptions& options) const {
  Batch batch = random_texts(options, config().vocab_size, config().n_positions,
                             config().pad_token_id.value_or(config().vocab_size - 1), kArchitecture);
  RandomBatchOptions of_labels = options;
  of_labels.seed += 1;
  batch["labels"] = RandomTensors(of_labels, kArchitecture).integers({options.size}, config().head.num_labels());
  return batch;
}

LossSum GPT2ForSequenceClassificationImpl::loss(const at::Tensor& output, const Batch& batch) const {
  return sequence_loss(config().head, output, field(batch, "labels"), kArchitecture);
}

template class PretrainedModule<GPT2ForSequenceClassificationImpl, GPT2Config, Model>;
template class PretrainedTextModel<GPT2ForSequenceClassificationImpl, GPT2Config>;

}  // namespace lockstep

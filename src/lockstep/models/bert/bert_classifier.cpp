#include "lockstep/models/bert_heads.h"
#include "lockstep/models/layers/dropout.h"
#include "lockstep/models/layers/layers.h"
#include "lockstep/models/pretrained_model_bodies.h"
#include "lockstep/models/random_tensors.h"
#include "lockstep/models/token_batch.h"

namespace lockstep {

BertForSequenceClassificationImpl::BertForSequenceClassificationImpl(const BertConfig& config, InitialWeights weights)
    : PretrainedTextModel(config),
      dropout_(config.classifier_dropout.value_or(config.hidden_dropout_prob)),
      bert_(register_module("bert", std::make_shared<BertModelImpl>(config, true, InitialWeights::Unset))),
      classifier_(
          register_module("classifier", std::make_shared<Dense>(config.hidden_size, config.head.num_labels()))) {
  fill(weights);
}

at::Tensor BertForSequenceClassificationImpl::forward(const TokenInputs& inputs) {
  const at::Tensor pooled = bert_->forward(inputs, HiddenRows::First).pooler_output;
  return classifier_->forward(apply_dropout(pooled, dropout_, is_training()));
}

Batch BertForSequenceClassificationImpl::random_batch(const RandomBatchOptions& options) const {
  Batch batch = random_texts(options, config().vocab_size, config().max_position_embeddings,
                             config().pad_token_id.value_or(0), kArchitecture);
  RandomBatchOptions of_labels = options;
  of_labels.seed += 1;
  batch["labels"] = RandomTensors(of_labels, kArchitecture).integers({options.size}, config().head.num_labels());
  return batch;
}

LossSum BertForSequenceClassificationImpl::loss(const at::Tensor& output, const Batch& batch) const {
  return sequence_loss(config().head, output, field(batch, "labels"), kArchitecture);
}

template class PretrainedModule<BertForSequenceClassificationImpl, BertConfig, Model>;
template class PretrainedTextModel<BertForSequenceClassificationImpl, BertConfig>;

}  // namespace lockstep

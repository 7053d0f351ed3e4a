#include "lockstep/models/encoders/encoder_bodies.h"
#include "lockstep/models/layers/dropout.h"
#include "lockstep/models/random_tensors.h"

namespace lockstep {

template <typename Family>
EncoderForSequenceClassificationImpl<Family>::EncoderForSequenceClassificationImpl(const EncoderConfig<Family>& config,
                                                                                   InitialWeights weights)
    : PretrainedTextModel<EncoderForSequenceClassificationImpl, EncoderConfig<Family>>(config) {
  const EncoderLayout& layout = layout_of<Family>();
  encoder_ = this->register_module(layout.name,
                                   std::make_shared<EncoderModelImpl<Family>>(config, false, InitialWeights::Unset));
  dense_ = add_at(*this, layout.classifier.dense, std::make_shared<Dense>(config.hidden_size, config.hidden_size));
  scores_ =
      add_at(*this, layout.classifier.scores, std::make_shared<Dense>(config.hidden_size, config.head.num_labels()));
  this->fill(weights);
}

template <typename Family>
at::Tensor EncoderForSequenceClassificationImpl<Family>::forward(const TokenInputs& inputs) {
  const ClassifierLayout& layout = layout_of<Family>().classifier;
  const double rate = this->config().classifier_dropout.value_or(this->config().hidden_dropout_prob);
  at::Tensor first = encoder_->forward(inputs, HiddenRows::First).last_hidden_state.select(1, 0);
  if (layout.drops_input) first = apply_dropout(first, rate, this->is_training());
  const at::Tensor inner = activate(layout.activation, dense_->forward(first));
  return scores_->forward(apply_dropout(inner, rate, this->is_training()));
}

template <typename Family>
Batch EncoderForSequenceClassificationImpl<Family>::random_batch(const RandomBatchOptions& options) const {
  const EncoderConfig<Family>& config = this->config();
  Batch batch =
      random_texts(options, config.vocab_size, config.max_positions(), config.pad_token_id.value_or(0), kArchitecture);
  RandomBatchOptions of_labels = options;
  of_labels.seed += 1;
  batch["labels"] = RandomTensors(of_labels, kArchitecture).integers({options.size}, config.head.num_labels());
  return batch;
}

template <typename Family>
LossSum EncoderForSequenceClassificationImpl<Family>::loss(const at::Tensor& output, const Batch& batch) const {
  return sequence_loss(this->config().head, output, this->field(batch, "labels"), kArchitecture);
}

template class PretrainedModule<RobertaForSequenceClassificationImpl, RobertaConfig, Model>;
template class PretrainedModule<DistilBertForSequenceClassificationImpl, DistilBertConfig, Model>;
template class PretrainedModule<ElectraForSequenceClassificationImpl, ElectraConfig, Model>;
template class PretrainedModule<MPNetForSequenceClassificationImpl, MPNetConfig, Model>;
template class PretrainedTextModel<RobertaForSequenceClassificationImpl, RobertaConfig>;
template class PretrainedTextModel<DistilBertForSequenceClassificationImpl, DistilBertConfig>;
template class PretrainedTextModel<ElectraForSequenceClassificationImpl, ElectraConfig>;
template class PretrainedTextModel<MPNetForSequenceClassificationImpl, MPNetConfig>;
template class EncoderForSequenceClassificationImpl<Roberta>;
template class EncoderForSequenceClassificationImpl<DistilBert>;
template class EncoderForSequenceClassificationImpl<Electra>;
template class EncoderForSequenceClassificationImpl<MPNet>;

}  // namespace lockstep

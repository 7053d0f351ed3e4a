#include "lockstep/models/bert/bert_weights.h"
#include "lockstep/models/bert_heads.h"
#include "lockstep/models/layers/dropout.h"
#include "lockstep/models/layers/layers.h"
#include "lockstep/models/random_tensors.h"
#include "lockstep/models/token_batch.h"

namespace lockstep {
namespace {

constexpr const char* kBertClassifier = "BertForSequenceClassification";

}  // namespace

BertForSequenceClassificationImpl::BertForSequenceClassificationImpl(const BertConfig& config, InitialWeights weights)
    : Model(kBertClassifier),
      config_(config),
      dropout_(config.classifier_dropout.value_or(config.hidden_dropout_prob)),
      bert_(register_module("bert", std::make_shared<BertModelImpl>(config, true, InitialWeights::Unset))),
      classifier_(
          register_module("classifier", std::make_shared<Dense>(config.hidden_size, config.head.num_labels()))) {
  if (weights == InitialWeights::Random)
    initialize_parameters(*this, bert_weight_rules(config_, kBertClassifier).initialize);
}

Loaded<BertForSequenceClassificationImpl> BertForSequenceClassificationImpl::from_pretrained(
    const std::string& folder, const LoadOptions& options) {
  const BertConfig config = bert_config_for(folder, options);
  auto model = build_model(
      folder, [&] { return std::make_shared<BertForSequenceClassificationImpl>(config, InitialWeights::Unset); });
  LoadReport report = load_weights(*model, bert_weight_rules(config, kBertClassifier), folder, options);
  return {std::move(model), std::move(report)};
}

void BertForSequenceClassificationImpl::save_pretrained(const std::string& folder,
                                                        std::uint64_t max_shard_bytes) const {
  lockstep::save_pretrained(*this, config_.to_json(kBertClassifier), folder, max_shard_bytes);
}

at::Tensor BertForSequenceClassificationImpl::forward(const TokenInputs& inputs) {
  const at::Tensor pooled = bert_->forward(inputs).pooler_output;
  return classifier_->forward(apply_dropout(pooled, dropout_, is_training()));
}

std::vector<InputField> BertForSequenceClassificationImpl::inputs() const {
  return {{"input_ids", at::kLong, {-1, -1}}, {"attention_mask", at::kLong, {-1, -1}}, {"labels", at::kLong, {-1}}};
}

Batch BertForSequenceClassificationImpl::random_batch(const RandomBatchOptions& options) const {
  Batch batch = random_texts(options, config_.vocab_size, config_.max_position_embeddings,
                             config_.pad_token_id.value_or(0), kBertClassifier);
  RandomBatchOptions of_labels = options;
  of_labels.seed += 1;
  batch["labels"] = RandomTensors(of_labels, kBertClassifier).integers({options.size}, config_.head.num_labels());
  return batch;
}

LossSum BertForSequenceClassificationImpl::loss(const at::Tensor& output, const Batch& batch) const {
  return sequence_loss(config_.head, output, field(batch, "labels"), kBertClassifier);
}

at::Tensor BertForSequenceClassificationImpl::forward_batch(const Batch& batch) {
  return forward(token_inputs_of(batch, kBertClassifier));
}

std::shared_ptr<Model> BertForSequenceClassificationImpl::make_alike() const {
  return std::make_shared<BertForSequenceClassificationImpl>(config_, InitialWeights::Unset);
}

}  // namespace lockstep

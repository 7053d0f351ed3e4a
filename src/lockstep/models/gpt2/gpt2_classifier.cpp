#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/models/gpt2.h"
#include "lockstep/models/gpt2/gpt2_weights.h"
#include "lockstep/models/layers/layers.h"
#include "lockstep/models/random_tensors.h"
#include "lockstep/models/token_batch.h"

namespace lockstep {
namespace {

constexpr const char* kGpt2Classifier = "GPT2ForSequenceClassification";

// The column of each row's last token that is not padding; 0 if all tokens are padding.
at::Tensor last_tokens(const at::Tensor& ids, const std::optional<std::int64_t>& pad_token_id) {
  if (pad_token_id) {
    const at::Tensor columns = at::arange(ids.size(1), ids.options());
    return ids.ne(*pad_token_id).mul(columns).argmax(1);
  }
  if (ids.size(0) == 1) return at::full({1}, ids.size(1) - 1, ids.options());
  throw Error(fmt::format("a batch of {} texts, and no token that pads them", ids.size(0)),
              std::string(kGpt2Classifier) + ", field \"pad_token_id\" of config.json",
              "set pad_token_id (the end-of-text token serves: 50256 in GPT-2), or give one text at a time");
}

}  // namespace

GPT2ForSequenceClassificationImpl::GPT2ForSequenceClassificationImpl(const GPT2Config& config, InitialWeights weights)
    : Model(kGpt2Classifier),
      config_(config),
      transformer_(register_module("transformer", std::make_shared<GPT2ModelImpl>(config, InitialWeights::Unset))),
      score_(register_module("score", std::make_shared<Dense>(config.n_embd, config.head.num_labels(), false))) {
  if (weights == InitialWeights::Random)
    initialize_parameters(*this, gpt2_weight_rules(config_, kGpt2Classifier).initialize);
}

Loaded<GPT2ForSequenceClassificationImpl> GPT2ForSequenceClassificationImpl::from_pretrained(
    const std::string& folder, const LoadOptions& options) {
  const GPT2Config config = gpt2_config_for(folder, options);
  auto model = build_model(
      folder, [&] { return std::make_shared<GPT2ForSequenceClassificationImpl>(config, InitialWeights::Unset); });
  LoadReport report = load_weights(*model, gpt2_weight_rules(config, kGpt2Classifier), folder, options);
  return {std::move(model), std::move(report)};
}

void GPT2ForSequenceClassificationImpl::save_pretrained(const std::string& folder,
                                                        std::uint64_t max_shard_bytes) const {
  lockstep::save_pretrained(*this, config_.to_json(kGpt2Classifier), folder, max_shard_bytes);
}

at::Tensor GPT2ForSequenceClassificationImpl::forward(const TokenInputs& inputs) {
  const at::Tensor hidden = transformer_->forward(inputs);
  const at::Tensor rows = at::arange(hidden.size(0), inputs.input_ids.options());
  // Only the tokens that count are scored.
  return score_->forward(hidden.index({rows, last_tokens(inputs.input_ids, config_.pad_token_id)}));
}

std::vector<InputField> GPT2ForSequenceClassificationImpl::inputs() const {
  return {{"input_ids", at::kLong, {-1, -1}}, {"attention_mask", at::kLong, {-1, -1}}, {"labels", at::kLong, {-1}}};
}

Batch GPT2ForSequenceClassificationImpl::random_batch(const RandomBatchOptions& options) const {
  Batch batch = random_texts(options, config_.vocab_size, config_.n_positions,
                             config_.pad_token_id.value_or(config_.vocab_size - 1), kGpt2Classifier);
  RandomBatchOptions of_labels = options;
  of_labels.seed += 1;
  batch["labels"] = RandomTensors(of_labels, kGpt2Classifier).integers({options.size}, config_.head.num_labels());
  return batch;
}

LossSum GPT2ForSequenceClassificationImpl::loss(const at::Tensor& output, const Batch& batch) const {
  return sequence_loss(config_.head, output, field(batch, "labels"), kGpt2Classifier);
}

at::Tensor GPT2ForSequenceClassificationImpl::forward_batch(const Batch& batch) {
  return forward(token_inputs_of(batch, kGpt2Classifier));
}

std::shared_ptr<Model> GPT2ForSequenceClassificationImpl::make_alike() const {
  return std::make_shared<GPT2ForSequenceClassificationImpl>(config_, InitialWeights::Unset);
}

}  // namespace lockstep

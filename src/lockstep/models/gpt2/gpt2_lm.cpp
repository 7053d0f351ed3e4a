#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>

#include "lockstep/models/gpt2.h"
#include "lockstep/models/gpt2/gpt2_weights.h"
#include "lockstep/models/layers/dense_function.h"
#include "lockstep/models/layers/layers.h"
#include "lockstep/models/loss.h"
#include "lockstep/models/token_batch.h"

namespace lockstep {
namespace {

constexpr const char* kGpt2LmHead = "GPT2LMHeadModel";

}  // namespace

GPT2LMHeadModelImpl::GPT2LMHeadModelImpl(const GPT2Config& config, InitialWeights weights)
    : Model(kGpt2LmHead),
      config_(config),
      transformer_(register_module("transformer", std::make_shared<GPT2ModelImpl>(config, InitialWeights::Unset))) {
  if (!config.tie_word_embeddings) {
    head_ = register_module("lm_head", std::make_shared<Dense>(config.n_embd, config.vocab_size, false));
  }
  if (weights == InitialWeights::Random)
    initialize_parameters(*this, gpt2_weight_rules(config_, kGpt2LmHead).initialize);
}

Loaded<GPT2LMHeadModelImpl> GPT2LMHeadModelImpl::from_pretrained(const std::string& folder,
                                                                 const LoadOptions& options) {
  const GPT2Config config = gpt2_config_for(folder, options);
  auto model =
      build_model(folder, [&] { return std::make_shared<GPT2LMHeadModelImpl>(config, InitialWeights::Unset); });
  LoadReport report = load_weights(*model, gpt2_weight_rules(config, kGpt2LmHead), folder, options);
  return {std::move(model), std::move(report)};
}

void GPT2LMHeadModelImpl::save_pretrained(const std::string& folder, std::uint64_t max_shard_bytes) const {
  lockstep::save_pretrained(*this, config_.to_json(kGpt2LmHead), folder, max_shard_bytes);
}

at::Tensor GPT2LMHeadModelImpl::forward(const TokenInputs& inputs) {
  const at::Tensor hidden = transformer_->forward(inputs);
  const at::Tensor& weight = head_ ? head_->weight() : transformer_->word_embeddings().weight();
  const at::Tensor scores = dense(hidden.flatten(0, 1), weight, {}, WeightLayout::OutIn);
  return scores.view({hidden.size(0), hidden.size(1), -1});
}

std::vector<InputField> GPT2LMHeadModelImpl::inputs() const {
  return {{"input_ids", at::kLong, {-1, -1}}, {"attention_mask", at::kLong, {-1, -1}}, {"labels", at::kLong, {-1, -1}}};
}

Batch GPT2LMHeadModelImpl::random_batch(const RandomBatchOptions& options) const {
  Batch batch = random_texts(options, config_.vocab_size, config_.n_positions,
                             config_.pad_token_id.value_or(config_.vocab_size - 1), kGpt2LmHead);
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
  return cross_entropy_sum(output.flatten(0, -2), next.flatten(), kGpt2LmHead, factor);
}

at::Tensor GPT2LMHeadModelImpl::forward_batch(const Batch& batch) {
  return forward(token_inputs_of(batch, kGpt2LmHead));
}

std::shared_ptr<Model> GPT2LMHeadModelImpl::make_alike() const {
  return std::make_shared<GPT2LMHeadModelImpl>(config_, InitialWeights::Unset);
}

}  // namespace lockstep

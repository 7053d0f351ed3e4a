#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <string>
#include <vector>

#include "lockstep/detail/models/gpt2_config.h"
#include "lockstep/detail/models/initialization.h"
#include "lockstep/detail/models/pretrained_model.h"
#include "lockstep/detail/models/token_inputs.h"
#include "lockstep/models/model.h"
#include "lockstep/models/pretrained.h"

namespace lockstep {

class Dense;
class Embedding;
class GPT2Block;
class Norm;

/// The decoder (Radford et al., 2019), with the parameter names of Hugging Face's `GPT2Model`.
///
/// As in Hugging Face's model, positions count from 0 whether tokens are padding or not. To count only the tokens of
/// left-padded texts, pass `position_ids_of_mask(attention_mask)` as position_ids.
class GPT2ModelImpl : public PretrainedModule<GPT2ModelImpl, GPT2Config, torch::nn::Module> {
 public:
  static constexpr const char* kArchitecture = "GPT2Model";

  /// @throws Error  if the configuration is not possible
  explicit GPT2ModelImpl(const GPT2Config& config, InitialWeights weights = InitialWeights::Random);
  ~GPT2ModelImpl() override;

  /// @return  [size, length, n_embd]
  /// @throws Error  if ids, lengths or shapes do not fit the configuration; the message names field, row and column
  at::Tensor forward(const TokenInputs& inputs);

  const Embedding& word_embeddings() const { return *words_; }

 private:
  at::Tensor embed(const TokenInputs& inputs) const;

  std::shared_ptr<Embedding> words_;
  std::shared_ptr<Embedding> positions_;
  std::vector<std::shared_ptr<GPT2Block>> blocks_;
  std::shared_ptr<Norm> norm_;
};
extern template class PretrainedModule<GPT2ModelImpl, GPT2Config, torch::nn::Module>;
TORCH_MODULE(GPT2Model);

/// GPT-2 that predicts the next token. Parameters as in Hugging Face's `GPT2LMHeadModel`. The head's weight is the word
/// embedding (unless `tie_word_embeddings` is false), so the module and its files hold it once.
/// Batch: "input_ids" and "labels" [size, length]; optional: "attention_mask", "token_type_ids", "position_ids". Labels
/// are the ids themselves, with -100 for tokens that do not count (padding); the model shifts them.
class GPT2LMHeadModelImpl : public PretrainedTextModel<GPT2LMHeadModelImpl, GPT2Config> {
 public:
  static constexpr const char* kArchitecture = "GPT2LMHeadModel";
  static constexpr bool kScoresEachToken = true;

  explicit GPT2LMHeadModelImpl(const GPT2Config& config, InitialWeights weights = InitialWeights::Random);

  /// @return  scores [size, length, vocab_size]
  /// @throws Error  as GPT2Model
  at::Tensor forward(const TokenInputs& inputs);

  Batch random_batch(const RandomBatchOptions& options) const override;
  LossSum loss(const at::Tensor& output, const Batch& batch) const override;
  LossSum smoothed_loss(const at::Tensor& output, const Batch& batch, double factor) const override;

 private:
  std::shared_ptr<GPT2ModelImpl> transformer_;
  std::shared_ptr<Dense> head_;
};
extern template class PretrainedModule<GPT2LMHeadModelImpl, GPT2Config, Model>;
extern template class PretrainedTextModel<GPT2LMHeadModelImpl, GPT2Config>;
TORCH_MODULE(GPT2LMHeadModel);

/// GPT-2 with a linear layer over the last token that is not padding. Parameters as in Hugging Face's
/// `GPT2ForSequenceClassification`. Batch: as above, but "labels" are [size].
class GPT2ForSequenceClassificationImpl : public PretrainedTextModel<GPT2ForSequenceClassificationImpl, GPT2Config> {
 public:
  static constexpr const char* kArchitecture = "GPT2ForSequenceClassification";
  static constexpr bool kScoresEachToken = false;

  explicit GPT2ForSequenceClassificationImpl(const GPT2Config& config, InitialWeights weights = InitialWeights::Random);

  /// @return  scores [size, num_labels]
  /// @throws Error  as GPT2Model, and for more than one text if the configuration has no pad_token_id
  at::Tensor forward(const TokenInputs& inputs);

  Batch random_batch(const RandomBatchOptions& options) const override;
  LossSum loss(const at::Tensor& output, const Batch& batch) const override;

 private:
  std::shared_ptr<GPT2ModelImpl> transformer_;
  std::shared_ptr<Dense> score_;
};
extern template class PretrainedModule<GPT2ForSequenceClassificationImpl, GPT2Config, Model>;
extern template class PretrainedTextModel<GPT2ForSequenceClassificationImpl, GPT2Config>;
TORCH_MODULE(GPT2ForSequenceClassification);

}  // namespace lockstep

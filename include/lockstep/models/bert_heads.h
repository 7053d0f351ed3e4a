#pragma once

#include <torch/nn/pimpl.h>

#include <memory>
#include <string>
#include <vector>

#include "lockstep/detail/models/pretrained_model.h"
#include "lockstep/models/bert.h"
#include "lockstep/models/model.h"
#include "lockstep/models/pretrained.h"

namespace lockstep {

class BertMlmHead;
class Dense;

/// BERT with a linear layer over the pooled first token. Parameters as in Hugging Face's
/// `BertForSequenceClassification`.
/// Batch: "input_ids" and "labels" [size]; optional: "attention_mask", "token_type_ids", "position_ids".
class BertForSequenceClassificationImpl : public PretrainedTextModel<BertForSequenceClassificationImpl, BertConfig> {
 public:
  static constexpr const char* kArchitecture = "BertForSequenceClassification";
  static constexpr bool kScoresEachToken = false;

  explicit BertForSequenceClassificationImpl(const BertConfig& config, InitialWeights weights = InitialWeights::Random);

  /// @return  scores [size, num_labels]
  /// @throws Error  if ids, lengths or shapes do not fit the configuration; the message names field, row and column
  at::Tensor forward(const TokenInputs& inputs);

  Batch random_batch(const RandomBatchOptions& options) const override;
  LossSum loss(const at::Tensor& output, const Batch& batch) const override;

 private:
  double dropout_;
  std::shared_ptr<BertModelImpl> bert_;
  std::shared_ptr<Dense> classifier_;
};
extern template class PretrainedModule<BertForSequenceClassificationImpl, BertConfig, Model>;
extern template class PretrainedTextModel<BertForSequenceClassificationImpl, BertConfig>;
TORCH_MODULE(BertForSequenceClassification);

/// BERT that predicts masked words. Parameters as in Hugging Face's `BertForMaskedLM`. The decoder's weight is the word
/// embedding (unless `tie_word_embeddings` is false), so the module and its files hold it once.
/// Batch: as above, but "labels" are [size, length]: the original word at masked places, -100 at all others.
class BertForMaskedLMImpl : public PretrainedTextModel<BertForMaskedLMImpl, BertConfig> {
 public:
  static constexpr const char* kArchitecture = "BertForMaskedLM";
  static constexpr bool kScoresEachToken = true;

  explicit BertForMaskedLMImpl(const BertConfig& config, InitialWeights weights = InitialWeights::Random);

  /// @return  scores [size, length, vocab_size]
  /// @throws Error  as BertForSequenceClassification
  at::Tensor forward(const TokenInputs& inputs);

  Batch random_batch(const RandomBatchOptions& options) const override;
  LossSum loss(const at::Tensor& output, const Batch& batch) const override;

 private:
  std::shared_ptr<BertModelImpl> bert_;
  std::shared_ptr<BertMlmHead> head_;
};
extern template class PretrainedModule<BertForMaskedLMImpl, BertConfig, Model>;
extern template class PretrainedTextModel<BertForMaskedLMImpl, BertConfig>;
TORCH_MODULE(BertForMaskedLM);

}  // namespace lockstep

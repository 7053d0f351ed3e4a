#pragma once

#include <torch/nn/pimpl.h>

#include <memory>
#include <string>
#include <vector>

#include "lockstep/models/bert.h"
#include "lockstep/models/model.h"
#include "lockstep/models/pretrained.h"

namespace lockstep {

class BertMlmHead;
class Dense;

/// BERT with a linear layer over the pooled first token. Parameters as in Hugging Face's
/// `BertForSequenceClassification`.
/// Batch: "input_ids" and "labels" [size]; optional: "attention_mask", "token_type_ids", "position_ids".
class BertForSequenceClassificationImpl : public Model {
 public:
  explicit BertForSequenceClassificationImpl(const BertConfig& config, InitialWeights weights = InitialWeights::Random);

  /// Reads config.json and the weights in `folder`.
  /// @throws Error  if something cannot be read or does not fit; it names file and field
  static Loaded<BertForSequenceClassificationImpl> from_pretrained(const std::string& folder,
                                                                   const LoadOptions& options = {});
  /// Writes config.json and the weights, so that Hugging Face's `from_pretrained` reads them.
  void save_pretrained(const std::string& folder, std::uint64_t max_shard_bytes = kDefaultMaxShardBytes) const;

  /// @return  scores [size, num_labels]
  /// @throws Error  if ids, lengths or shapes do not fit (see check_token_inputs)
  at::Tensor forward(const TokenInputs& inputs);
  const BertConfig& config() const { return config_; }

  InputKind input_kind() const override { return InputKind::Text; }
  std::vector<InputField> inputs() const override;
  Batch random_batch(const RandomBatchOptions& options) const override;
  LossSum loss(const at::Tensor& output, const Batch& batch) const override;

 private:
  at::Tensor forward_batch(const Batch& batch) override;
  std::shared_ptr<Model> make_alike() const override;

  BertConfig config_;
  double dropout_;
  std::shared_ptr<BertModelImpl> bert_;
  std::shared_ptr<Dense> classifier_;
};
TORCH_MODULE(BertForSequenceClassification);

/// BERT that predicts masked words. Parameters as in Hugging Face's `BertForMaskedLM`. The decoder's weight is the word
/// embedding (unless `tie_word_embeddings` is false), so the module and its files hold it once.
/// Batch: as above, but "labels" are [size, length]: the original word at masked places, -100 at all others.
class BertForMaskedLMImpl : public Model {
 public:
  explicit BertForMaskedLMImpl(const BertConfig& config, InitialWeights weights = InitialWeights::Random);

  static Loaded<BertForMaskedLMImpl> from_pretrained(const std::string& folder, const LoadOptions& options = {});
  void save_pretrained(const std::string& folder, std::uint64_t max_shard_bytes = kDefaultMaxShardBytes) const;

  /// @return  scores [size, length, vocab_size]
  at::Tensor forward(const TokenInputs& inputs);
  const BertConfig& config() const { return config_; }

  InputKind input_kind() const override { return InputKind::Text; }
  std::vector<InputField> inputs() const override;
  Batch random_batch(const RandomBatchOptions& options) const override;
  LossSum loss(const at::Tensor& output, const Batch& batch) const override;

 private:
  at::Tensor forward_batch(const Batch& batch) override;
  std::shared_ptr<Model> make_alike() const override;

  BertConfig config_;
  std::shared_ptr<BertModelImpl> bert_;
  std::shared_ptr<BertMlmHead> head_;
};
TORCH_MODULE(BertForMaskedLM);

}  // namespace lockstep

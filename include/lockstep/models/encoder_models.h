#pragma once

#include <torch/nn/pimpl.h>

#include <memory>

#include "lockstep/detail/models/encoder_config.h"
#include "lockstep/detail/models/pretrained_model.h"
#include "lockstep/models/bert.h"
#include "lockstep/models/model.h"
#include "lockstep/models/pretrained.h"

namespace lockstep {

class Dense;
class Norm;

/// The encoder of RoBERTa, DistilBERT, ELECTRA or MPNet, with the parameter names of Hugging Face's class.
template <typename Family>
class EncoderModelImpl : public PretrainedModule<EncoderModelImpl<Family>, EncoderConfig<Family>, torch::nn::Module> {
 public:
  static constexpr const char* kArchitecture = Family::kModel;

  /// @param has_pooler  as `add_pooling_layer`; DistilBERT and ELECTRA have no pooler
  /// @throws Error  if the configuration is not possible
  explicit EncoderModelImpl(const EncoderConfig<Family>& config, bool has_pooler = true,
                            InitialWeights weights = InitialWeights::Random);
  EncoderModelImpl(const EncoderConfig<Family>& config, InitialWeights weights)
      : EncoderModelImpl(config, true, weights) {}
  ~EncoderModelImpl() override;

  /// DistilBERT and MPNet have no segments: they take no notice of `token_type_ids`.
  /// @throws Error  if ids, lengths or shapes do not fit the configuration; the message names field, row and column
  BertOutput forward(const TokenInputs& inputs, HiddenRows rows = HiddenRows::All);

  const Embedding& word_embeddings() const;

 private:
  std::shared_ptr<BertEmbeddings> embeddings_;
  std::shared_ptr<Dense> projection_;  // null if the embeddings are as wide as the layers
  std::shared_ptr<BertEncoder> encoder_;
  std::shared_ptr<BertPooler> pooler_;
};

/// The encoder with two layers over its first token, which score labels.
/// Batch: as BertForSequenceClassification's.
template <typename Family>
class EncoderForSequenceClassificationImpl
    : public PretrainedTextModel<EncoderForSequenceClassificationImpl<Family>, EncoderConfig<Family>> {
 public:
  static constexpr const char* kArchitecture = Family::kClassifier;
  static constexpr bool kScoresEachToken = false;

  explicit EncoderForSequenceClassificationImpl(const EncoderConfig<Family>& config,
                                                InitialWeights weights = InitialWeights::Random);

  /// @return  scores [size, num_labels]
  /// @throws Error  if ids, lengths or shapes do not fit the configuration; the message names field, row and column
  at::Tensor forward(const TokenInputs& inputs);

  Batch random_batch(const RandomBatchOptions& options) const override;
  LossSum loss(const at::Tensor& output, const Batch& batch) const override;

 private:
  std::shared_ptr<EncoderModelImpl<Family>> encoder_;
  std::shared_ptr<Dense> dense_;
  std::shared_ptr<Dense> scores_;
};

/// The encoder that predicts masked words. The decoder's weight is the word embedding (unless `tie_word_embeddings` is
/// false), so the module and its files hold it once. Of ELECTRA, this is the generator.
/// Batch: as BertForMaskedLM's.
template <typename Family>
class EncoderForMaskedLMImpl : public PretrainedTextModel<EncoderForMaskedLMImpl<Family>, EncoderConfig<Family>> {
 public:
  static constexpr const char* kArchitecture = Family::kMaskedLM;
  static constexpr bool kScoresEachToken = true;

  explicit EncoderForMaskedLMImpl(const EncoderConfig<Family>& config, InitialWeights weights = InitialWeights::Random);

  /// @return  scores [size, length, vocab_size]
  at::Tensor forward(const TokenInputs& inputs);

  Batch random_batch(const RandomBatchOptions& options) const override;
  LossSum loss(const at::Tensor& output, const Batch& batch) const override;

 private:
  std::shared_ptr<EncoderModelImpl<Family>> encoder_;
  std::shared_ptr<Dense> dense_;
  std::shared_ptr<Norm> norm_;
  std::shared_ptr<Dense> decoder_;  // null if the words' table scores them
  at::Tensor bias_;                 // with the words' table only
};

using RobertaModelImpl = EncoderModelImpl<Roberta>;
using RobertaForSequenceClassificationImpl = EncoderForSequenceClassificationImpl<Roberta>;
using RobertaForMaskedLMImpl = EncoderForMaskedLMImpl<Roberta>;
using DistilBertModelImpl = EncoderModelImpl<DistilBert>;
using DistilBertForSequenceClassificationImpl = EncoderForSequenceClassificationImpl<DistilBert>;
using DistilBertForMaskedLMImpl = EncoderForMaskedLMImpl<DistilBert>;
using ElectraModelImpl = EncoderModelImpl<Electra>;
using ElectraForSequenceClassificationImpl = EncoderForSequenceClassificationImpl<Electra>;
using ElectraForMaskedLMImpl = EncoderForMaskedLMImpl<Electra>;
using MPNetModelImpl = EncoderModelImpl<MPNet>;
using MPNetForSequenceClassificationImpl = EncoderForSequenceClassificationImpl<MPNet>;
using MPNetForMaskedLMImpl = EncoderForMaskedLMImpl<MPNet>;

TORCH_MODULE(RobertaModel);
TORCH_MODULE(RobertaForSequenceClassification);
TORCH_MODULE(RobertaForMaskedLM);
TORCH_MODULE(DistilBertModel);
TORCH_MODULE(DistilBertForSequenceClassification);
TORCH_MODULE(DistilBertForMaskedLM);
TORCH_MODULE(ElectraModel);
TORCH_MODULE(ElectraForSequenceClassification);
TORCH_MODULE(ElectraForMaskedLM);
TORCH_MODULE(MPNetModel);
TORCH_MODULE(MPNetForSequenceClassification);
TORCH_MODULE(MPNetForMaskedLM);

}  // namespace lockstep

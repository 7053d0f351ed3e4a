#pragma once

#include <cstdint>
#include <string>

#include "lockstep/detail/models/bert_config.h"

namespace lockstep {

/// Hugging Face's models whose encoder is BERT's but for names, positions and heads.
struct Roberta {  ///< Liu et al., 2019, arXiv:1907.11692
  static constexpr const char* kModel = "RobertaModel";
  static constexpr const char* kClassifier = "RobertaForSequenceClassification";
  static constexpr const char* kMaskedLM = "RobertaForMaskedLM";
};
struct DistilBert {  ///< Sanh et al., 2019, arXiv:1910.01108
  static constexpr const char* kModel = "DistilBertModel";
  static constexpr const char* kClassifier = "DistilBertForSequenceClassification";
  static constexpr const char* kMaskedLM = "DistilBertForMaskedLM";
};
struct Electra {  ///< Clark et al., 2020, arXiv:2003.10555
  static constexpr const char* kModel = "ElectraModel";
  static constexpr const char* kClassifier = "ElectraForSequenceClassification";
  static constexpr const char* kMaskedLM = "ElectraForMaskedLM";
};
struct MPNet {  ///< Song et al., 2020, arXiv:2004.09297
  static constexpr const char* kModel = "MPNetModel";
  static constexpr const char* kClassifier = "MPNetForSequenceClassification";
  static constexpr const char* kMaskedLM = "MPNetForMaskedLM";
};

/// The sizes and rates of such a model: BERT's members, also where the model's own file calls them otherwise
/// (DistilBERT's "dim" is `hidden_size`, its "seq_classif_dropout" is `classifier_dropout`).
template <typename Family>
struct EncoderConfig : BertConfig {
  std::int64_t embedding_size = 0;        ///< width of the embeddings, of ELECTRA; 0: hidden_size
  bool has_sinusoidal_positions = false;  ///< DistilBERT's new position embeddings are sines, not random

  /// Hugging Face's defaults for this model.
  EncoderConfig();
  /// Reads `config.json`. @param path  the file or its folder
  /// @throws Error  naming file and field, as BertConfig::from_file
  static EncoderConfig from_file(const std::string& path);
  /// The text of a `config.json`: `source`, with these settings in place of its own.
  std::string to_json(const std::string& architecture) const;
  /// @throws Error  naming the field, if no model can have this configuration
  void check(const std::string& where) const;
  /// Tokens of the longest text: RoBERTa and MPNet keep the first rows of their positions for padding.
  std::int64_t max_positions() const;
};

using RobertaConfig = EncoderConfig<Roberta>;
using DistilBertConfig = EncoderConfig<DistilBert>;
using ElectraConfig = EncoderConfig<Electra>;
using MPNetConfig = EncoderConfig<MPNet>;

}  // namespace lockstep

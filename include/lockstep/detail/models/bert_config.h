#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/detail/models/activation.h"
#include "lockstep/detail/models/sequence_head.h"

namespace lockstep {

/// A BERT's sizes and rates, under Hugging Face's names and with their defaults (bert-base-uncased).
struct BertConfig {
  std::int64_t vocab_size = 30522;
  std::int64_t hidden_size = 768;
  std::int64_t num_hidden_layers = 12;
  std::int64_t num_attention_heads = 12;
  std::int64_t intermediate_size = 3072;
  Activation hidden_act = Activation::Gelu;
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  std::int64_t max_position_embeddings = 512;
  std::int64_t type_vocab_size = 2;
  double initializer_range = 0.02;
  double layer_norm_eps = 1e-12;
  std::optional<std::int64_t> pad_token_id = 0;  ///< its word embedding gets no gradient
  std::optional<double> classifier_dropout;      ///< default: hidden_dropout_prob
  bool tie_word_embeddings = true;
  SequenceHead head;                    ///< labels and problem type of a classifier
  bool gradient_checkpointing = false;  ///< recompute each layer in backward instead of keeping its activations
  std::string source;                   ///< the JSON that it was read from, including settings that have no member here

  /// Reads `config.json`. Settings that do not change the result are ignored, as Hugging Face ignores them.
  /// @param path  the file or its folder
  /// @throws Error  naming file and field: the type is wrong, a value is out of range, sizes do not fit each other, or
  /// a setting would change the result and is not supported (a decoder, relative positions, quantised weights…)
  static BertConfig from_file(const std::string& path);
  /// The text of a `config.json`: `source`, with these settings in place of its own.
  /// @param architecture  the class that is saved ("BertForSequenceClassification")
  std::string to_json(const std::string& architecture) const;
  /// @throws Error  naming the field, if no model can have this configuration
  void check(const std::string& where) const;
};

/// The sizes of Google's smaller BERTs: "tiny" (2 layers of 128), "mini" (4 of 256), "small" (4 of 512), "base" (12 of
/// 768). (Turc et al., 2019, arXiv:1908.08962)
/// @throws Error  for another name
BertConfig bert_config_of_size(const std::string& size);

}  // namespace lockstep

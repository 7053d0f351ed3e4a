#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "lockstep/detail/models/bert_config.h"
#include "lockstep/detail/models/token_inputs.h"
#include "lockstep/models/layers/layers.h"

namespace lockstep {

/// In what embeddings differ from BERT's.
struct EmbeddingLayout {
  std::int64_t width;  ///< numbers of each token
  bool has_segments = true;
  /// If given, a text's positions begin behind this id of padding, and padding has the position of that number.
  std::optional<std::int64_t> padding_position = std::nullopt;
};

/// The sum of word, segment and position embeddings, normalised.
class BertEmbeddings : public torch::nn::Module {
 public:
  BertEmbeddings(const BertConfig& config, const EmbeddingLayout& layout);
  /// @return  [size * length, width]
  at::Tensor forward(const TokenInputs& inputs) const;
  const Embedding& words() const { return *words_; }

 private:
  at::Tensor segments_and_positions(const TokenInputs& inputs) const;

  double dropout_;
  std::optional<std::int64_t> padding_position_;
  std::shared_ptr<Embedding> words_;
  std::shared_ptr<Embedding> positions_;
  std::shared_ptr<Embedding> segments_;  // null if the model has none
  std::shared_ptr<Norm> norm_;
};

}  // namespace lockstep

#pragma once

#include <torch/nn/module.h>

#include <memory>

#include "lockstep/detail/models/token_inputs.h"
#include "lockstep/models/bert_config.h"
#include "lockstep/models/layers/layers.h"

namespace lockstep {

/// The sum of word, segment and position embeddings, normalised.
class BertEmbeddings : public torch::nn::Module {
 public:
  explicit BertEmbeddings(const BertConfig& config);
  /// @return  [size * length, hidden_size]
  at::Tensor forward(const TokenInputs& inputs) const;
  const Embedding& words() const { return *words_; }

 private:
  at::Tensor segments_and_positions(const TokenInputs& inputs) const;

  double dropout_;
  std::shared_ptr<Embedding> words_;
  std::shared_ptr<Embedding> positions_;
  std::shared_ptr<Embedding> segments_;
  std::shared_ptr<Norm> norm_;
};

}  // namespace lockstep

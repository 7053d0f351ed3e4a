#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <vector>

#include "lockstep/models/bert_config.h"
#include "lockstep/models/layers/attention.h"
#include "lockstep/models/layers/layers.h"

namespace lockstep {

/// dense, dropout, add the layer's input, normalise.
class BertResidual : public torch::nn::Module {
 public:
  BertResidual(std::int64_t in, const BertConfig& config);
  at::Tensor forward(const at::Tensor& x, const at::Tensor& residual) const;

 private:
  double dropout_;
  std::shared_ptr<Dense> dense_;
  std::shared_ptr<Norm> norm_;
};

/// One transformer layer: attention over the text, then a feed-forward layer, each with a residual around it.
class BertLayer : public torch::nn::Module {
 public:
  explicit BertLayer(const BertConfig& config);
  /// @param x  [size * length, hidden_size]
  at::Tensor forward(const at::Tensor& x, const AttentionOptions& options) const;

 private:
  at::Tensor attend(const at::Tensor& x, const AttentionOptions& options) const;

  Activation activation_;
  std::shared_ptr<Dense> query_;
  std::shared_ptr<Dense> key_;
  std::shared_ptr<Dense> value_;
  std::shared_ptr<BertResidual> attention_output_;
  std::shared_ptr<Dense> intermediate_;
  std::shared_ptr<BertResidual> output_;
};

/// The stack of layers.
class BertEncoder : public torch::nn::Module {
 public:
  explicit BertEncoder(const BertConfig& config);
  /// @param x  [size * length, hidden_size]
  /// @param options  size, length and mask; the encoder sets the rest
  at::Tensor forward(const at::Tensor& x, AttentionOptions options) const;

 private:
  std::int64_t heads_;
  double scale_;
  double dropout_;
  bool is_checkpointed_;
  std::vector<std::shared_ptr<BertLayer>> layers_;
};

}  // namespace lockstep

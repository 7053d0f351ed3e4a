#pragma once

#include <torch/nn/module.h>

#include <memory>

#include "lockstep/detail/models/gpt2_config.h"
#include "lockstep/models/layers/attention.h"
#include "lockstep/models/layers/layers.h"

namespace lockstep {

/// One block: attention over the preceding tokens, then a feed-forward layer; each normalises its input first and adds
/// its result to it.
class GPT2Block : public torch::nn::Module {
 public:
  /// @param index  number of the block, from 0
  GPT2Block(const GPT2Config& config, std::int64_t index);
  /// @param x  [size * length, n_embd]
  /// @param options  size, length and mask; the block sets the rest
  at::Tensor forward(const at::Tensor& x, AttentionOptions options) const;

 private:
  at::Tensor attend(const at::Tensor& x, const AttentionOptions& options) const;

  std::int64_t heads_;
  double scale_;
  double attention_dropout_;
  double residual_dropout_;
  bool upcasts_;
  Activation activation_;
  std::shared_ptr<Norm> norm_1_;
  std::shared_ptr<TransposedDense> query_key_value_;
  std::shared_ptr<TransposedDense> attention_output_;
  std::shared_ptr<Norm> norm_2_;
  std::shared_ptr<TransposedDense> intermediate_;
  std::shared_ptr<TransposedDense> output_;
};

}  // namespace lockstep

#pragma once

#include <ATen/ops/tanh.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>

#include "lockstep/models/layers/layers.h"

namespace lockstep {

/// tanh of a layer over the first token.
class BertPooler : public torch::nn::Module {
 public:
  explicit BertPooler(std::int64_t size) : dense_(register_module("dense", std::make_shared<Dense>(size, size))) {}
  /// @param hidden  [size, length, hidden_size]
  /// @return  [size, hidden_size]
  at::Tensor forward(const at::Tensor& hidden) const { return at::tanh(dense_->forward(hidden.select(1, 0))); }

 private:
  std::shared_ptr<Dense> dense_;
};

}  // namespace lockstep

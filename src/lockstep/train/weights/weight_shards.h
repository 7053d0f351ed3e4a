#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "lockstep/data/batch.h"
#include "lockstep/detail/tensor/tensor_part.h"

namespace lockstep {

/// A model whose weights the ranks have in shards: what can be done with it between updates, and after the last one.
class WeightShards {
 public:
  virtual ~WeightShards() = default;

  /// The model's forward without gradients. Gathers one layer after the other, so every rank calls it equally often.
  virtual at::Tensor evaluate(const Batch& batch) = 0;
  /// As FusedStep::weight_parts.
  virtual TensorParts parts() = 0;
  /// As FusedStep::write_weight_parts.
  virtual void write_parts(const std::function<void(const TensorParts&)>& write) = 0;
  /// Gathers all weights, for a program that reads them. Collective.
  virtual void unshard() = 0;
  virtual void reshard() = 0;
  /// Gives every rank all weights, for good. Collective.
  virtual void make_whole() = 0;
};

}  // namespace lockstep

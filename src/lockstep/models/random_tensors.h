#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <string>

#include "lockstep/models/model.h"

namespace lockstep {

/// Draws the tensors of a synthetic batch from a generator of its own.
class RandomTensors {
 public:
  /// @throws Error  naming `model`, if the size is not positive
  RandomTensors(const RandomBatchOptions& options, const std::string& model);

  at::Tensor normal(at::IntArrayRef sizes);
  /// Uniform in [0, 1).
  at::Tensor uniform(at::IntArrayRef sizes);
  /// int64, uniform in [low, high).
  at::Tensor integers(at::IntArrayRef sizes, std::int64_t high, std::int64_t low = 0);

 private:
  at::Generator generator_;
};

}  // namespace lockstep

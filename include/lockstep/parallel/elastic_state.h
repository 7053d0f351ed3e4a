#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep {

/// All that a rank gives another one that is behind it, or has taken a lost rank's place.
struct ElasticState {
  /// Parameters and buffers, alike on all ranks; written in place. Those that require no gradient are copied before
  /// each step, and get these values back if the step is made again.
  std::vector<at::Tensor> tensors;
  std::vector<torch::optim::Optimizer*> optimizers;
  std::function<std::string()> save{};                   ///< everything else, as bytes; may be empty
  std::function<void(const std::string& bytes)> load{};  ///< takes over what `save` returned
  /// Steps that were made before: 0, or those of the checkpoint that this rank has read. A rank that has fewer than
  /// others gets their state before the first step.
  std::int64_t first_step = 0;
};

}  // namespace lockstep

#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <unordered_set>
#include <vector>

namespace lockstep {

/// Gradients that count as zeros and are not in memory, because a backward that adds to zeros on a device has a kernel
/// more for each parameter than one that hands over its result. A step without a backward in between takes them for
/// zeros, as it would on the CPU.
class DroppedGradients {
 public:
  /// Takes the gradient away from the parameter if it is one on a device; otherwise does nothing and returns false.
  bool drop(at::Tensor& parameter);
  /// Before a step: zeros for each parameter whose gradient was dropped and that has got no other one.
  void bring_back(const std::vector<torch::optim::OptimizerParamGroup>& groups);

 private:
  std::unordered_set<const c10::TensorImpl*> dropped_;
};

}  // namespace lockstep

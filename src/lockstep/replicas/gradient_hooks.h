#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>
#include <vector>

namespace lockstep {

/// Whether any hook is called with the gradient of a leaf.
bool has_gradient_hooks(const at::Tensor& leaf);

/// Removes the hooks of leaves while it lives: LibTorch 2 also calls them for gradients that are only captured.
class HooksOff {
 public:
  explicit HooksOff(const std::vector<at::Tensor>& leaves);
  ~HooksOff();
  HooksOff(const HooksOff&) = delete;
  HooksOff& operator=(const HooksOff&) = delete;

 private:
  using Hooks = decltype(torch::autograd::AutogradMeta::hooks_);
  std::vector<std::pair<torch::autograd::AutogradMeta*, Hooks>> kept_;
};

}  // namespace lockstep

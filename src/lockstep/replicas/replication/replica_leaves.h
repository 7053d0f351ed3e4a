#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

#include <vector>

namespace lockstep {

inline bool needs_gradient(const at::Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); }

/// Where the caller's graph goes on before each of `inputs`; not valid for those that need no gradient.
std::vector<torch::autograd::Edge> edges_of(const std::vector<at::Tensor>& inputs);

/// Where a replica's own graph ends: a leaf of the same memory for each input that needs a gradient, else undefined.
std::vector<at::Tensor> leaves_of(const std::vector<at::Tensor>& inputs);

/// `inputs` with their leaves in their place.
std::vector<at::Tensor> with_leaves(std::vector<at::Tensor> inputs, const std::vector<at::Tensor>& leaves);

}  // namespace lockstep

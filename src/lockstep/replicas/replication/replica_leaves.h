#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

#include <vector>

namespace lockstep {

inline bool needs_gradient(const at::Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); }

/// Where the caller's graph continues from each of `inputs`. Inputs that need no gradient have an invalid edge.
std::vector<torch::autograd::Edge> edges_of(const std::vector<at::Tensor>& inputs);

/// The ends of a replica's own graph: for each input that needs a gradient a leaf with its memory, else undefined.
std::vector<at::Tensor> leaves_of(const std::vector<at::Tensor>& inputs);

/// `inputs`, with defined leaves in place of their inputs.
std::vector<at::Tensor> with_leaves(std::vector<at::Tensor> inputs, const std::vector<at::Tensor>& leaves);

}  // namespace lockstep

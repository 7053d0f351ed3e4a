#include "lockstep/replicas/replication/replica_leaves.h"

#include <torch/csrc/autograd/variable.h>

namespace lockstep {

std::vector<torch::autograd::Edge> edges_of(const std::vector<at::Tensor>& inputs) {
  std::vector<torch::autograd::Edge> edges;
  for (const at::Tensor& input : inputs) {
    edges.push_back(needs_gradient(input) ? torch::autograd::impl::gradient_edge(input) : torch::autograd::Edge());
  }
  return edges;
}

std::vector<at::Tensor> leaves_of(const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& input : inputs) {
    leaves.push_back(needs_gradient(input) ? input.detach().requires_grad_() : at::Tensor());
  }
  return leaves;
}

std::vector<at::Tensor> with_leaves(std::vector<at::Tensor> inputs, const std::vector<at::Tensor>& leaves) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (leaves[i].defined()) inputs[i] = leaves[i];
  }
  return inputs;
}

}  // namespace lockstep

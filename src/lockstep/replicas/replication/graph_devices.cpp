#include "lockstep/replicas/replication/graph_devices.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <unordered_set>

namespace lockstep {
namespace {

using torch::autograd::Node;

bool takes_gradient_on(const Node& node, c10::Device device) {
  for (std::uint32_t i = 0; i < node.num_inputs(); ++i) {
    if (node.input_metadata(i).device() == device) return true;
  }
  return false;
}

}  // namespace

bool reaches_device(const std::vector<at::Tensor>& outputs, c10::Device device) {
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> next;
  const auto visit = [&](const Node* node) {
    if (node != nullptr && seen.insert(node).second) next.push_back(node);
  };
  for (const at::Tensor& output : outputs) {
    if (output.defined()) visit(output.grad_fn().get());
  }
  while (!next.empty()) {
    const Node* const node = next.back();
    next.pop_back();
    if (takes_gradient_on(*node, device)) return true;
    for (const auto& edge : node->next_edges()) visit(edge.function.get());
  }
  return false;
}

}  // namespace lockstep

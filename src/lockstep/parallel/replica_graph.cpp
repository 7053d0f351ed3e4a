#include "lockstep/parallel/replica_graph.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/parallel/gradient_sum.h"

namespace lockstep {
namespace {

using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::variable_list;
using Tensors = std::vector<at::Tensor>;

// A shared_ptr or an intrusive_ptr to the node, as LibTorch's version has it.
using NodePointer = decltype(Edge::function);

template <typename NodeType, typename Pointer = NodePointer, typename... Args>
Pointer make_node(Args&&... args) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<Node>>) {
    return Pointer(new NodeType(std::forward<Args>(args)...), torch::autograd::deleteNode);
  } else {
    return c10::make_intrusive<NodeType>(std::forward<Args>(args)...);
  }
}

bool needs_gradient(const at::Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); }

bool has_gradient_hooks(const at::Tensor& parameter) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(parameter);  // null: frozen and never looked at
  if (meta != nullptr && !meta->hooks_.empty()) return true;
  const auto accumulator = torch::autograd::impl::try_get_grad_accumulator(parameter);
  return accumulator && (!accumulator->pre_hooks().empty() || !accumulator->post_hooks().empty());
}

// Takes the hooks off parameters while it lives: LibTorch 2 calls them for gradients that are only captured, too.
class HooksOff {
 public:
  explicit HooksOff(const std::vector<const ReplicaSet::State::Parameter*>& parameters) {
    for (const auto* parameter : parameters) {
      auto* meta = torch::autograd::impl::get_autograd_meta(parameter->tensor);
      if (meta != nullptr && !meta->hooks_.empty()) kept_.emplace_back(meta, std::exchange(meta->hooks_, {}));
    }
  }
  ~HooksOff() {
    for (auto& [meta, hooks] : kept_) meta->hooks_ = std::move(hooks);
  }
  HooksOff(const HooksOff&) = delete;
  HooksOff& operator=(const HooksOff&) = delete;

 private:
  using Hooks = decltype(torch::autograd::AutogradMeta::hooks_);
  std::vector<std::pair<torch::autograd::AutogradMeta*, Hooks>> kept_;
};

// Whether all gradients of this backward go to `.grad` and nobody looks at them on their way.
bool is_plain_backward(const std::vector<ReplicaSet::State::Parameter>& parameters) {
  const auto* restriction = torch::autograd::get_current_graph_task_exec_info();
  if (restriction != nullptr && !restriction->empty()) return false;
  return std::none_of(parameters.begin(), parameters.end(),
                      [](const auto& parameter) { return has_gradient_hooks(parameter.tensor); });
}

// The step of the caller's graph. What comes before it: the inputs that need gradients, replica by replica, then the
// parameters that did when forward ran.
class DataParallelBackward : public Node {
 public:
  explicit DataParallelBackward(ReplicaGraph graph) : graph_(std::move(graph)) {
    torch::autograd::edge_list edges;
    for (const Tensors& inputs : graph_.inputs) {
      for (const at::Tensor& input : inputs) {
        if (needs_gradient(input)) edges.push_back(torch::autograd::impl::gradient_edge(input));
      }
    }
    for (const auto& parameter : graph_.state->parameters) {
      if (!needs_gradient(parameter.tensor)) continue;
      parameters_.push_back(&parameter);
      edges.push_back(torch::autograd::impl::gradient_edge(parameter.tensor));
    }
    graph_.inputs.clear();
    set_next_edges(std::move(edges));
  }

  std::string name() const override { return "DataParallelBackward"; }
  // The engine says beforehand whether the graph may go, and the replicas' can then go as their backward runs.
  void will_release_variables() override { may_release_ = true; }
  void release_variables() override {
    is_released_ = true;
    graph_.leaves.clear();
    graph_.outputs.clear();
  }

 private:
  variable_list apply(variable_list&& gradients) override {
    TORCH_CHECK(!is_released_, torch::autograd::ERR_BACKWARD_TWICE);
    if (at::GradMode::is_enabled()) {
      throw Error("DataParallel cannot differentiate its gradients (create_graph)", "backward",
                  "differentiate twice on one replica: call the module itself");
    }
    const bool keeps_graph = !std::exchange(may_release_, false);
    const bool is_plain = is_plain_backward(graph_.state->parameters);
    clear_replica_gradients();
    const std::size_t count = graph_.outputs.size();
    std::vector<Tensors> roots(count);
    std::vector<Tensors> seeds(count);
    hand_out(gradients, roots, seeds);
    Tensors captured;  // of replica 0, whose parameters are the module's own
    graph_.state->run(count, "backward", [&](std::size_t replica) {
      if (roots[replica].empty()) return;
      if (replica == 0 && !is_plain) {
        captured = gradients_of_module(roots[0], seeds[0], keeps_graph);
      } else {
        torch::autograd::backward(roots[replica], seeds[replica], keeps_graph);
      }
    });
    variable_list results = input_gradients(captured, is_plain);
    reduce(captured, is_plain, results);
    return results;
  }

  // Output gradients come in the order in which the outputs were joined.
  void hand_out(const variable_list& gradients, std::vector<Tensors>& roots, std::vector<Tensors>& seeds) const {
    StepTrace* const trace = graph_.state->trace;
    TraceScope scope(trace, "scatter", graph_.state->devices.front().name());
    std::size_t position = 0;
    for (std::size_t replica = 0; replica < graph_.outputs.size(); ++replica) {
      for (const at::Tensor& output : graph_.outputs[replica]) {
        if (!needs_gradient(output)) continue;
        const at::Tensor& gradient = gradients[position++];
        if (!gradient.defined()) continue;
        roots[replica].push_back(output);
        seeds[replica].push_back(gradient);
        scope.add_bytes(static_cast<std::int64_t>(gradient.nbytes()));
      }
    }
  }

  // A backward that failed may have left some.
  void clear_replica_gradients() const {
    for (const auto& parameter : graph_.state->parameters) {
      for (std::size_t replica = 1; replica < parameter.leaves.size(); ++replica) {
        for (const at::Tensor& leaf : parameter.leaves[replica]) leaf.mutable_grad() = at::Tensor();
      }
    }
    for (const Tensors& leaves : graph_.leaves) {
      for (const at::Tensor& leaf : leaves) {
        if (leaf.defined()) leaf.mutable_grad() = at::Tensor();
      }
    }
  }

  // Gradients of replica 0 that go nowhere yet: first those of its inputs, then of the parameters.
  Tensors gradients_of_module(const Tensors& roots, const Tensors& seeds, bool keeps_graph) const {
    Tensors wanted;
    for (const at::Tensor& leaf : graph_.leaves[0]) {
      if (leaf.defined()) wanted.push_back(leaf);
    }
    for (const auto* parameter : parameters_) wanted.push_back(parameter->tensor);
    const HooksOff quiet(parameters_);  // the engine calls them with the sum
    return torch::autograd::grad(roots, wanted, seeds, keeps_graph, /*create_graph=*/false, /*allow_unused=*/true);
  }

  variable_list input_gradients(Tensors& captured, bool is_plain) const {
    variable_list results;
    for (std::size_t replica = 0; replica < graph_.leaves.size(); ++replica) {
      for (const at::Tensor& leaf : graph_.leaves[replica]) {
        if (!leaf.defined()) continue;
        const bool is_captured = replica == 0 && !is_plain;
        if (!is_captured) {
          results.push_back(leaf.grad());
          leaf.mutable_grad() = at::Tensor();
        } else {
          results.push_back(captured.empty() ? at::Tensor() : captured[results.size()]);
        }
      }
    }
    return results;
  }

  // Adds the replicas' gradients to replica 0's: in the module's `.grad` itself where the backward is plain, and else
  // in what goes back to the engine.
  void reduce(const Tensors& captured, bool is_plain, variable_list& results) const {
    StepTrace* const trace = graph_.state->trace;
    TraceScope scope(trace, "reduce", graph_.state->devices.front().name());
    std::size_t position = captured.empty() ? 0 : captured.size() - parameters_.size();
    std::vector<GradientSum> sums;
    for (const auto* parameter : parameters_) {
      GradientSum sum;
      sum.device = parameter->tensor.device();
      if (is_plain) {
        sum.target = parameter->tensor.grad();
      } else if (!captured.empty()) {
        sum.target = captured[position++];
        sum.is_shared = true;
      }
      for (std::size_t replica = 1; replica < parameter->leaves.size(); ++replica) {
        for (const at::Tensor& leaf : parameter->leaves[replica]) {
          if (!leaf.grad().defined()) continue;
          sum.sources.push_back(leaf.grad());
          leaf.mutable_grad() = at::Tensor();
        }
      }
      sums.push_back(std::move(sum));
    }
    scope.add_bytes(add_gradients(graph_.state->team, sums));
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (is_plain) {
        if (sums[i].target.defined()) parameters_[i]->tensor.mutable_grad() = sums[i].target;
        results.emplace_back();
      } else {
        results.push_back(sums[i].target);
      }
    }
  }

  ReplicaGraph graph_;
  std::vector<const ReplicaSet::State::Parameter*> parameters_;  // in graph_.state
  bool may_release_ = false;
  bool is_released_ = false;
};

}  // namespace

std::vector<std::vector<at::Tensor>> join_replica_graphs(ReplicaGraph graph) {
  std::vector<Tensors> joined;
  std::vector<std::pair<std::size_t, std::size_t>> places;  // of the outputs that need gradients
  for (std::size_t replica = 0; replica < graph.outputs.size(); ++replica) {
    joined.push_back(graph.outputs[replica]);
    for (std::size_t i = 0; i < joined[replica].size(); ++i) {
      if (!needs_gradient(joined[replica][i])) continue;
      joined[replica][i] = joined[replica][i].detach();
      places.emplace_back(replica, i);
    }
  }
  if (places.empty()) return joined;
  const NodePointer node = make_node<DataParallelBackward>(std::move(graph));
  for (const auto& [replica, i] : places) torch::autograd::create_gradient_edge(joined[replica][i], node);
  return joined;
}

}  // namespace lockstep

#include "lockstep/replicas/replication/replica_graph.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <type_traits>
#include <utility>

#include "lockstep/replicas/gradient_hooks.h"
#include "lockstep/replicas/gradient_sum.h"
#include "lockstep/replicas/replication/replica_leaves.h"

namespace lockstep {
namespace {

using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::variable_list;
using Tensors = std::vector<at::Tensor>;

// A shared_ptr or an intrusive_ptr to the node, depending on LibTorch's version.
using NodePointer = decltype(Edge::function);

template <typename NodeType, typename Pointer = NodePointer, typename... Args>
Pointer make_node(Args&&... args) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<Node>>) {
    // A generic lambda, because deleteNode does not exist in versions whose nodes have an intrusive count.
    return Pointer(new NodeType(std::forward<Args>(args)...), [](auto* node) { deleteNode(node); });
  } else {
    return c10::make_intrusive<NodeType>(std::forward<Args>(args)...);
  }
}

// Whether this backward writes all gradients to `.grad` and no hook reads them on the way.
bool is_plain_backward(const std::vector<ReplicaSet::State::Parameter>& parameters) {
  const auto* restriction = torch::autograd::get_current_graph_task_exec_info();
  if (restriction != nullptr && !restriction->empty()) return false;
  return std::none_of(parameters.begin(), parameters.end(),
                      [](const auto& parameter) { return has_gradient_hooks(parameter.tensor); });
}

// The step of the caller's graph. Its inputs are the replicas' inputs that need gradients, replica by replica, then the
// parameters that needed gradients when forward ran.
class DataParallelBackward : public Node {
 public:
  explicit DataParallelBackward(ReplicaGraph graph) : graph_(std::move(graph)) {
    torch::autograd::edge_list edges;
    for (const auto& inputs : graph_.edges) {
      std::copy_if(inputs.begin(), inputs.end(), std::back_inserter(edges), [](const Edge& e) { return e.is_valid(); });
    }
    for (const auto& parameter : graph_.state->parameters) {
      if (!needs_gradient(parameter.tensor)) continue;
      parameters_.push_back(&parameter);
      edges.push_back(torch::autograd::impl::gradient_edge(parameter.tensor));
    }
    set_next_edges(std::move(edges));
  }

  std::string name() const override { return "DataParallelBackward"; }
  // The engine announces that it will release the graph; the replicas' graphs can then be released during their
  // backward.
  void will_release_variables() override { may_release_ = true; }
  void release_variables() override {
    is_released_ = true;
    graph_.edges.clear();
    graph_.leaves.clear();
    graph_.outputs.clear();
  }

 private:
  variable_list apply(variable_list&& gradients) override {
    TORCH_CHECK(!is_released_, torch::autograd::ERR_BACKWARD_TWICE);
    if (at::GradMode::is_enabled()) return differentiable_gradients(gradients);
    const bool keeps_graph = !std::exchange(may_release_, false) || graph_.is_shared;
    const bool is_plain = is_plain_backward(graph_.state->parameters);
    clear_replica_gradients();
    const std::size_t count = graph_.outputs.size();
    std::vector<Tensors> roots(count);
    std::vector<Tensors> seeds(count);
    hand_out(gradients, roots, seeds);
    Tensors captured;  // gradients of replica 0, whose parameters are the module's own
    run_backward(count, [&](std::size_t replica) {
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

  void run_backward(std::size_t count, const std::function<void(std::size_t)>& work) const {
    graph_.state->run(count, "backward", work, graph_.in_turn);
  }

  // For create_graph: the gradients are outputs of another step of the caller's graph. Its inputs are the inputs and
  // output gradients of this step, and it goes through the replicas' graphs of both steps.
  variable_list differentiable_gradients(const variable_list& gradients) {
    graph_.is_shared = true;
    const std::size_t count = graph_.outputs.size();
    std::vector<Tensors> roots(count);
    std::vector<Tensors> seeds(count);
    hand_out(gradients, roots, seeds);
    ReplicaGraph step{graph_.state, graph_.edges, graph_.leaves, std::vector<Tensors>(count), graph_.in_turn, true};
    run_backward(count, [&](std::size_t replica) {
      if (roots[replica].empty()) return;
      const Tensors leaves = leaves_of(seeds[replica]);
      const Tensors wanted = wanted_in(replica);
      if (wanted.empty()) return;
      const HooksOff quiet(wanted);
      step.outputs[replica] =
          torch::autograd::grad(roots[replica], wanted, with_leaves(seeds[replica], leaves),
                                /*retain_graph=*/true, /*create_graph=*/true, /*allow_unused=*/true);
      const auto edges = edges_of(seeds[replica]);
      step.edges[replica].insert(step.edges[replica].end(), edges.begin(), edges.end());
      step.leaves[replica].insert(step.leaves[replica].end(), leaves.begin(), leaves.end());
    });
    return sum_differentiably(join_replica_graphs(std::move(step)));
  }

  // A replica's inputs that need gradients, then its parameters without those that were frozen since the forward.
  Tensors wanted_in(std::size_t replica) const {
    Tensors wanted;
    for (const at::Tensor& leaf : graph_.leaves[replica]) {
      if (leaf.defined()) wanted.push_back(leaf);
    }
    for (const auto* parameter : parameters_) {
      if (!needs_gradient(parameter->tensor)) continue;
      if (replica == 0) wanted.push_back(parameter->tensor);
      const Tensors& leaves = parameter->leaves[replica];
      wanted.insert(wanted.end(), leaves.begin(), leaves.end());
    }
    return wanted;
  }

  // @param gradients  [replica], as `wanted_in`; empty if no gradient reached the replica
  variable_list sum_differentiably(const std::vector<Tensors>& gradients) const {
    variable_list results;
    std::vector<std::size_t> positions;
    for (std::size_t replica = 0; replica < gradients.size(); ++replica) {
      std::size_t position = 0;
      for (const at::Tensor& leaf : graph_.leaves[replica]) {
        if (leaf.defined())
          results.push_back(gradients[replica].empty() ? at::Tensor() : gradients[replica][position++]);
      }
      positions.push_back(position);
    }
    for (const auto* parameter : parameters_) {
      at::Tensor sum;
      for (std::size_t replica = 0; replica < gradients.size(); ++replica) {
        if (gradients[replica].empty() || !needs_gradient(parameter->tensor)) continue;
        const std::size_t parts = replica == 0 ? 1 : parameter->leaves[replica].size();
        for (std::size_t part = 0; part < parts; ++part) {
          const at::Tensor& gradient = gradients[replica][positions[replica]++];
          if (!gradient.defined()) continue;
          const at::Tensor here = gradient.to(parameter->tensor.device());
          sum = sum.defined() ? sum + here : here;
        }
      }
      results.push_back(sum);
    }
    return results;
  }

  // Output gradients arrive in the order in which the outputs were joined.
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

  // A backward that failed may have left gradients.
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

  // Replica 0's gradients, not yet accumulated: first those of its inputs, then those of the parameters.
  Tensors gradients_of_module(const Tensors& roots, const Tensors& seeds, bool keeps_graph) const {
    const Tensors wanted = wanted_in(0);
    if (wanted.empty()) return {};
    const HooksOff quiet(wanted);  // the engine calls the hooks with the sum
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

  // Adds the replicas' gradients to replica 0's: directly in the module's `.grad` if the backward is plain, else in the
  // results for the engine.
  void reduce(const Tensors& captured, bool is_plain, variable_list& results) const {
    StepTrace* const trace = graph_.state->trace;
    TraceScope scope(trace, "reduce", graph_.state->devices.front().name());
    const auto is_input = [](const at::Tensor& leaf) { return leaf.defined(); };
    auto position =
        static_cast<std::size_t>(std::count_if(graph_.leaves.front().begin(), graph_.leaves.front().end(), is_input));
    std::vector<GradientSum> sums;
    for (const auto* parameter : parameters_) {
      GradientSum sum;
      sum.device = parameter->tensor.device();
      const bool is_wanted = needs_gradient(parameter->tensor);
      if (is_wanted && is_plain) {
        sum.target = parameter->tensor.grad();
      } else if (is_wanted && !captured.empty()) {
        sum.target = captured[position++];
        sum.is_shared = true;
      }
      for (std::size_t replica = 1; replica < parameter->leaves.size(); ++replica) {
        for (const at::Tensor& leaf : parameter->leaves[replica]) {
          if (!leaf.grad().defined()) continue;
          if (is_wanted) sum.sources.push_back(leaf.grad());
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
  std::vector<const ReplicaSet::State::Parameter*> parameters_;  // point into graph_.state
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

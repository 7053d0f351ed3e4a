#include "lockstep/detail/replicas/replica_set.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/replicas/replication/graph_devices.h"
#include "lockstep/replicas/replication/replica_graph.h"
#include "lockstep/replicas/replication/replica_leaves.h"
#include "lockstep/replicas/replication/replica_state.h"

namespace lockstep {
namespace {

using Tensors = std::vector<at::Tensor>;

bool any_requires_grad(const std::vector<Tensors>& inputs) {
  return std::any_of(inputs.begin(), inputs.end(), [](const Tensors& tensors) {
    return std::any_of(tensors.begin(), tensors.end(), needs_gradient);
  });
}

}  // namespace

ReplicaSet::ReplicaSet(std::vector<ReplicaModule> modules, std::vector<ReplicaDevice> devices, ReplicaOptions options)
    : state_(std::make_shared<State>(std::move(modules), std::move(devices), options)) {}

ReplicaSet::~ReplicaSet() = default;

std::size_t ReplicaSet::size() const { return state_->devices.size(); }
const std::vector<ReplicaDevice>& ReplicaSet::devices() const { return state_->devices; }
int ReplicaSet::threads_per_replica() const { return state_->share.threads; }
void ReplicaSet::weights_changed() { state_->weights_changed(); }
void ReplicaSet::set_trace(StepTrace* trace) { state_->trace = trace; }
StepTrace* ReplicaSet::trace() const { return state_->trace; }

std::vector<Tensors> ReplicaSet::apply(const std::vector<Tensors>& inputs, const Body& body) {
  const std::size_t count = inputs.size();
  if (count > size()) {
    throw Error(fmt::format("there are {} chunks for {} replicas", count, size()), "parallel_apply",
                "scatter over the devices of the replicas");
  }
  const bool trains = state_->synchronise(count);
  std::vector<Tensors> outputs(count);
  if (count == 1) {  // a single replica uses the caller's thread, graph and generator
    state_->run(1, "forward", [&](std::size_t) { outputs[0] = body(0, inputs[0]); });
    return outputs;
  }
  ReplicaSeed seed(state_->random, count);
  if (trains) seed.draw();  // evaluation leaves the generator unchanged, unless it draws
  const auto& parameters = state_->parameters;
  const bool has_graph =
      at::GradMode::is_enabled() &&
      (any_requires_grad(inputs) ||
       std::any_of(parameters.begin(), parameters.end(), [](const auto& p) { return p.tensor.requires_grad(); }));
  std::vector<Tensors> leaves(count);
  const c10::Device first = state_->devices.front().tensor_device();
  std::atomic<bool> in_turn{false};
  state_->run(count, "forward", [&](std::size_t i) {
    std::optional<ReplicaRandomGuard> random;
    if (state_->devices[i].is_cpu()) random.emplace(state_->random[i], seed, trains);
    if (has_graph) leaves[i] = leaves_of(inputs[i]);
    outputs[i] = has_graph ? body(i, with_leaves(inputs[i], leaves[i])) : body(i, inputs[i]);
    if (has_graph && i > 0 && !first.is_cpu() && reaches_device(outputs[i], first)) in_turn = true;
  });
  if (!has_graph) return outputs;
  std::vector<std::vector<torch::autograd::Edge>> edges;
  for (const Tensors& tensors : inputs) edges.push_back(edges_of(tensors));
  return join_replica_graphs({state_, std::move(edges), std::move(leaves), std::move(outputs), in_turn});
}

void ReplicaSet::run_all(const std::function<void(std::size_t)>& work) {
  state_->synchronise(size());
  state_->run(size(), "forward", work);
}

}  // namespace lockstep

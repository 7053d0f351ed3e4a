#include "lockstep/replicas/replication/replica_state.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/processor/heap.h"
#include "lockstep/replicas/replica_threads.h"
#include "lockstep/start/kernel_choice.h"

namespace lockstep {
namespace {

bool is_same_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.data_ptr() == b.data_ptr();
}

// An inference tensor has no version counter, so it may have changed at any time.
constexpr std::uint32_t kUnknownVersion = ~0U;
std::uint32_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? kUnknownVersion : static_cast<std::uint32_t>(tensor._version());
}

// A tensor that gets other memory leaves the memory alone that an earlier forward's backward needs, and costs no
// kernel. If only some tensors changed, they are written in place, so that the pieces of the others do not pile up.
// @param is_new  `values` is a copy, which nothing else uses
void put(const at::Tensor& target, const at::Tensor& values, bool is_new) {
  const bool fits = target.scalar_type() == values.scalar_type() && target.sizes() == values.sizes();
  if (fits && !is_new) {
    target.detach().copy_(values);
  } else {
    target.set_data(is_new ? values : values.clone());
  }
}

std::string shape_and_type(const at::Tensor& tensor) {
  return fmt::format("{} [{}]", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes().vec(), ", "));
}

ComputeShare share_for(const std::vector<ReplicaDevice>& devices, const ReplicaOptions& options) {
  const auto cpus = std::count_if(devices.begin(), devices.end(), [](const auto& device) { return device.is_cpu(); });
  if (cpus == 0) return {0, {}};  // CUDA replicas: their threads only launch work
  const bool all_cpu = cpus == static_cast<std::ptrdiff_t>(devices.size());
  return share_cores_of_process(static_cast<std::size_t>(cpus), options.threads_per_replica,
                                options.pin_threads && all_cpu);
}

}  // namespace

ReplicaSet::State::State(std::vector<ReplicaModule> replica_modules, std::vector<ReplicaDevice> replica_devices,
                         const ReplicaOptions& options)
    : devices(std::move(replica_devices)),
      share(share_for(devices, options)),
      modules(std::move(replica_modules)),
      team(devices.size(),
           {share.cores, [this](std::size_t replica) { start_replica_thread(devices[replica], share); }}),
      weight_writes_(devices.size()),
      buffer_writes_(devices.size()),
      buffer_versions_(devices.size()) {
  if (devices.size() > 1) keep_freed_memory();
  check_kernels();
  check_alike();
  collect_parameters();
  check_placement();
}

void ReplicaSet::State::check_alike() const {
  const ReplicaModule& first = modules.front();
  for (std::size_t r = 1; r < modules.size(); ++r) {
    const std::string where = fmt::format("replica {} on device {}", r, devices[r].name());
    if (modules[r].names != first.names) {
      throw Error("the clone of the module has other parameters or buffers than the module", where,
                  "let `clone` make a module of the same structure");
    }
    for (std::size_t i = 0; i < first.parameters.size(); ++i) {
      const at::Tensor& a = first.parameters[i];
      const at::Tensor& b = modules[r].parameters[i];
      if (a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type()) continue;
      throw Error(fmt::format("{} is {} in the module but {} in its clone", first.names[i], shape_and_type(a),
                              shape_and_type(b)),
                  where, "let `clone` make a module of the same structure");
    }
  }
}

// Follows PyTorch's rule and wording.
void ReplicaSet::State::check_placement() const {
  const auto check = [&](const at::Tensor& tensor) {
    if (tensor.device() == devices.front().tensor_device()) return;
    throw Error(fmt::format("module must have its parameters and buffers on device {} (device_ids[0]) but found one of "
                            "them on device: {}",
                            devices.front().name(), tensor.device().str()),
                "DataParallel", "move the module there, or name its device first");
  };
  for (const Parameter& parameter : parameters) check(parameter.tensor);
  for (const at::Tensor& buffer : modules.front().buffers) check(buffer);
}

void ReplicaSet::State::collect_parameters() {
  std::unordered_map<const c10::TensorImpl*, std::size_t> known;
  for (std::size_t i = 0; i < modules.front().parameters.size(); ++i) {
    const at::Tensor& tensor = modules.front().parameters[i];
    const auto [found, is_new] = known.emplace(tensor.unsafeGetTensorImpl(), parameters.size());
    if (is_new) {
      parameters.push_back({modules.front().names[i], tensor, std::vector<std::vector<at::Tensor>>(devices.size()),
                            std::vector<std::uint32_t>(devices.size(), kUnknownVersion),
                            std::vector<const void*>(devices.size(), nullptr)});
    }
    Parameter& parameter = parameters[found->second];
    for (std::size_t r = 1; r < modules.size(); ++r) {
      const at::Tensor& leaf = modules[r].parameters[i];
      const auto is_leaf = [&](const at::Tensor& other) { return other.is_same(leaf); };
      auto& leaves = parameter.leaves[r];
      if (std::none_of(leaves.begin(), leaves.end(), is_leaf)) leaves.push_back(leaf);
    }
  }
}

// Whether an optimizer may write the weights before the next forward, or has written them since the last one.
bool ReplicaSet::State::may_be_updated() const {
  const bool records = at::GradMode::is_enabled();
  return std::any_of(parameters.begin(), parameters.end(), [&](const Parameter& parameter) {
    return parameter.tensor.requires_grad() && (records || parameter.tensor.grad().defined());
  });
}

bool ReplicaSet::State::synchronise(std::size_t count) {
  if (modules.size() <= 1) return false;
  const bool trains = modules[1].copy_modes();
  weight_writes_.begin(trains || may_be_updated());
  buffer_writes_.begin(trains);
  if (count <= 1) return false;
  if (modules.front().find_buffers) modules.front().buffers = modules.front().find_buffers();
  check_placement();
  const at::NoGradGuard no_grad;
  JoinedTensors weights;
  JoinedTensors buffers;
  for (std::size_t r = 1; r < count; ++r) {
    TraceScope scope(trace, "broadcast", devices[r].name());
    if (r > 1) modules[r].copy_modes();
    scope.add_bytes(refresh_weights(r, weights) + copy_buffers(r, buffers, buffer_writes_.take(r)));
  }
  return trains;
}

// The program may have frozen a parameter, converted the module or given a parameter other memory.
std::int64_t ReplicaSet::State::refresh_weights(std::size_t replica, JoinedTensors& joined) {
  const bool shares = devices[replica].is_cpu() && devices.front().is_cpu();
  for (Parameter& parameter : parameters) {
    for (at::Tensor& leaf : parameter.leaves[replica]) {
      if (leaf.requires_grad() != parameter.tensor.requires_grad()) {
        leaf.set_requires_grad(parameter.tensor.requires_grad());
      }
      if (shares && !is_same_memory(leaf, parameter.tensor)) leaf.set_data(parameter.tensor.detach());
    }
  }
  return shares ? 0 : copy_weights(replica, joined, weight_writes_.take(replica));
}

// Copies the weights that were written since the last time, or all of them.
std::int64_t ReplicaSet::State::copy_weights(std::size_t replica, JoinedTensors& joined, bool all) {
  std::vector<const Parameter*> changed;
  std::vector<at::Tensor> sources;
  for (Parameter& parameter : parameters) {
    const std::uint32_t version = version_of(parameter.tensor);
    const void* memory = parameter.tensor.data_ptr();
    const bool is_current = !all && version != kUnknownVersion && version == parameter.versions[replica] &&
                            memory == parameter.memories[replica];
    if (is_current) continue;
    parameter.versions[replica] = version;
    parameter.memories[replica] = memory;
    changed.push_back(&parameter);
    sources.push_back(parameter.tensor);
  }
  const std::vector<at::Tensor> values = joined.copies_on(devices[replica].tensor_device(), sources);
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < changed.size(); ++i) {
    for (const at::Tensor& leaf : changed[i]->leaves[replica]) put(leaf, values[i], all);
    bytes += static_cast<std::int64_t>(values[i].nbytes());
  }
  return bytes;
}

// If a module trains, or trained before, any buffer of numbers may have changed.
std::int64_t ReplicaSet::State::copy_buffers(std::size_t replica, JoinedTensors& joined, bool all) {
  const std::vector<at::Tensor>& sources = modules.front().buffers;
  auto& seen = buffer_versions_[replica];
  if (modules[replica].find_buffers) {  // the versions may be those of other tensors
    modules[replica].buffers = modules[replica].find_buffers();
    seen.clear();
  }
  seen.resize(sources.size(), {kUnknownVersion, kUnknownVersion});
  std::vector<std::size_t> changed;
  std::vector<at::Tensor> contents;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const at::Tensor& target = modules[replica].buffers[i];
    const bool is_counted = !all || !sources[i].is_floating_point();
    const bool is_known =
        is_counted && version_of(sources[i]) != kUnknownVersion && version_of(target) != kUnknownVersion;
    if (is_known && seen[i] == std::make_pair(version_of(sources[i]), version_of(target))) continue;
    changed.push_back(i);
    contents.push_back(sources[i]);
  }
  const bool travels = !devices[replica].is_cpu();
  const std::vector<at::Tensor> values =
      travels ? joined.copies_on(devices[replica].tensor_device(), contents) : contents;
  std::int64_t bytes = 0;
  for (std::size_t at = 0; at < changed.size(); ++at) {
    const std::size_t i = changed[at];
    const at::Tensor& target = modules[replica].buffers[i];
    put(target, values[at].detach(), all && travels);
    seen[i] = {version_of(sources[i]), version_of(target)};
    bytes += static_cast<std::int64_t>(target.nbytes());
  }
  return bytes;
}

void ReplicaSet::State::run(std::size_t count, const char* action, const std::function<void(std::size_t)>& work,
                            bool in_turn) {
  run_on_replicas(team, devices, share, trace, count, action, work, in_turn);
}

}  // namespace lockstep

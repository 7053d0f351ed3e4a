// AcceleratorState: the state that differs between ranks. Communication hooks keep residuals of this rank's gradients.
// If a hook lets the ranks' models differ, as in local SGD, each rank has its own weights and optimizers.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/train/accelerator/accelerator_state.h"

namespace lockstep {
namespace {

std::string hook_prefix(std::size_t model) { return fmt::format("hook_{}.", model); }
std::string replica_prefix(std::size_t model) { return fmt::format("replica_{}.", model); }
std::string replica_optimizer(std::size_t index) { return fmt::format("replica_optimizer_{}", index); }

at::Tensor tensor_of_bytes(const std::string& bytes) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  std::copy(bytes.begin(), bytes.end(), tensor.data_ptr<std::uint8_t>());
  return tensor;
}

std::string bytes_of_tensor(const at::Tensor& tensor) {
  const at::Tensor bytes = tensor.contiguous();
  return {static_cast<const char*>(bytes.data_ptr()), bytes.nbytes()};
}

bool is_shared_out(const torch::optim::Optimizer& optimizer) {
  const auto* flat = dynamic_cast<const FlatOptimizer*>(&optimizer);
  return flat != nullptr && flat->is_sharded();
}

// The tensors whose names begin with `prefix`, named without it.
NamedTensors with_prefix(const NamedTensors& tensors, const std::string& prefix) {
  NamedTensors found;
  for (const auto& [name, tensor] : tensors) {
    if (name.compare(0, prefix.size(), prefix) == 0) found.emplace_back(name.substr(prefix.size()), tensor);
  }
  return found;
}

}  // namespace

NamedTensors AcceleratorState::state_of_this_replica() const {
  NamedTensors tensors;
  bool may_differ = false;
  for (std::size_t i = 0; i < wrappers_.size(); ++i) {
    const DistributedDataParallelBase& ddp = wrappers_[i]();
    for (auto& [name, tensor] : ddp.comm_hook_state()) tensors.emplace_back(hook_prefix(i) + name, std::move(tensor));
    if (!ddp.replicas_may_differ()) continue;
    may_differ = true;
    for (auto& [name, tensor] : tensors_to_save(models_[i]())) {
      tensors.emplace_back(replica_prefix(i) + name, std::move(tensor));
    }
  }
  for (std::size_t i = 0; i < optimizers_.size() && may_differ; ++i) {
    if (is_shared_out(*optimizers_[i])) continue;  // belongs to a model whose ranks are equal
    tensors.emplace_back(replica_optimizer(i), tensor_of_bytes(detail::archive_bytes(*optimizers_[i])));
  }
  return tensors;
}

void AcceleratorState::load_replica(const NamedTensors& saved) {
  const at::NoGradGuard no_grad;
  const std::map<std::string, at::Tensor> by_name(saved.begin(), saved.end());
  for (std::size_t i = 0; i < wrappers_.size(); ++i) {
    wrappers_[i]().load_comm_hook_state(with_prefix(saved, hook_prefix(i)));
    for (auto& [name, tensor] : tensors_to_save(models_[i]())) {
      const auto own = by_name.find(replica_prefix(i) + name);
      if (own != by_name.end()) at::Tensor(tensor).copy_(own->second);
    }
  }
  for (std::size_t i = 0; i < optimizers_.size(); ++i) {
    const auto own = by_name.find(replica_optimizer(i));
    if (own != by_name.end()) detail::load_archive_bytes(*optimizers_[i], bytes_of_tensor(own->second));
  }
}

}  // namespace lockstep

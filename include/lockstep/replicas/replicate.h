#pragma once

#include <torch/nn/module.h>

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/detail/replicas/replica_set.h"
#include "lockstep/detail/tensor/call_forward.h"
#include "lockstep/detail/tensor/wrapped_module.h"

namespace lockstep {
namespace detail {

/// A copy of `first` on `device` for a replica. If both are on a CPU, the copy's parameters share the memory of
/// `first`. The process's generators are not changed by the initial values that cloning draws.
/// @throws Error  if the module cannot be cloned
std::shared_ptr<torch::nn::Module> make_replica(const torch::nn::Module& first, const ReplicaDevice& device);
torch::jit::Module make_replica(const torch::jit::Module& first, const ReplicaDevice& device);
/// If both are on a CPU, gives `target`, a replica's parameter, the memory of the module's parameter `source`.
void share_parameter(const at::Tensor& source, at::Tensor& target, const ReplicaDevice& device);
/// @param first  replica 0, which may be `replica` itself
ReplicaModule replica_module(torch::nn::Module& first, torch::nn::Module& replica);
ReplicaModule replica_module(torch::jit::Module& first, torch::jit::Module& replica);
void check_devices(const std::vector<ReplicaDevice>& devices);

template <typename ModuleType>
ModuleType make_replica_like(ModuleType& first, const ReplicaDevice& device) {
  if constexpr (kIsScriptModule<ModuleType>) {
    return make_replica(first, device);
  } else {
    using Class = std::remove_reference_t<decltype(*first)>;
    return ModuleType(std::dynamic_pointer_cast<Class>(make_replica(*first, device)));
  }
}

}  // namespace detail

/// A module and its replicas, typed.
/// @tparam ModuleType  a module holder (TORCH_MODULE), a shared_ptr to a module, or torch::jit::Module
template <typename ModuleType>
class Replicas {
  static_assert(detail::require_wrappable<ModuleType>());

 public:
  Replicas(ModuleType module, std::vector<ReplicaDevice> devices, ReplicaOptions options = {}) {
    detail::check_devices(devices);
    modules_.push_back(std::move(module));
    for (std::size_t i = 1; i < devices.size(); ++i) {
      modules_.push_back(detail::make_replica_like(modules_[0], devices[i]));
    }
    std::vector<ReplicaModule> states;
    for (ModuleType& replica : modules_) {
      states.push_back(detail::replica_module(detail::plain_module(modules_[0]), detail::plain_module(replica)));
    }
    set_ = std::make_unique<ReplicaSet>(std::move(states), std::move(devices), options);
  }

  std::size_t size() const { return modules_.size(); }
  const std::vector<ReplicaDevice>& devices() const { return set_->devices(); }
  /// Replica 0 is the module itself.
  ModuleType& operator[](std::size_t replica) { return modules_[replica]; }
  ReplicaSet& set() { return *set_; }

 private:
  std::vector<ModuleType> modules_;
  std::unique_ptr<ReplicaSet> set_;
};

/// Makes replicas of `module`, one per device. They are kept: `parallel_apply` may be called on them for every batch.
/// The structure of the module must not change; its weights may change, be loaded, frozen or converted.
/// @throws Error  if the module cannot be cloned (derive it from torch::nn::Cloneable), if its tensors are not on the
/// first device, or if a device is listed twice
template <typename ModuleType>
Replicas<ModuleType> replicate(ModuleType module, std::vector<ReplicaDevice> devices, ReplicaOptions options = {}) {
  return Replicas<ModuleType>(std::move(module), std::move(devices), options);
}
/// Takes a vector of names, such as std::vector<std::string>, or of numbers.
template <typename ModuleType, typename Name, std::enable_if_t<kNamesDevice<Name>, int> = 0>
Replicas<ModuleType> replicate(ModuleType module, const std::vector<Name>& devices, ReplicaOptions options = {}) {
  return replicate(std::move(module), replica_devices_named(devices), options);
}

}  // namespace lockstep

#pragma once

#include <torch/nn/module.h>

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/parallel/replica_set.h"

namespace lockstep {
namespace detail {

/// A clone whose random initial values leave the process's generators as they were.
/// @throws Error  if the module cannot be cloned
std::shared_ptr<torch::nn::Module> clone_module(const torch::nn::Module& module, const ReplicaDevice& device);
ReplicaModule replica_module(const std::shared_ptr<torch::nn::Module>& first,
                             const std::shared_ptr<torch::nn::Module>& replica);
void check_devices(const std::vector<ReplicaDevice>& devices);
/// The parameters of `replica` become the memory of those of `first`, where both are on a CPU.
void share_weights(const torch::nn::Module& first, torch::nn::Module& replica, const ReplicaDevice& device);

// The class behind a module holder (TORCH_MODULE) or a shared_ptr.
template <typename ModuleType>
using ModuleClass = std::remove_reference_t<decltype(*std::declval<ModuleType&>())>;

template <typename ModuleType>
std::shared_ptr<ModuleClass<ModuleType>> module_pointer(const ModuleType& module) {
  if constexpr (std::is_same_v<ModuleType, std::shared_ptr<ModuleClass<ModuleType>>>) {
    return module;
  } else {
    return module.ptr();
  }
}

}  // namespace detail

/// A module and its replicas, typed.
/// @tparam ModuleType  a module holder (TORCH_MODULE) or a shared_ptr to a module
template <typename ModuleType>
class Replicas {
 public:
  Replicas(ModuleType module, std::vector<ReplicaDevice> devices, ReplicaOptions options = {}) {
    detail::check_devices(devices);
    const std::shared_ptr<torch::nn::Module> first = detail::module_pointer(module);
    std::vector<ReplicaModule> states{detail::replica_module(first, first)};
    modules_.push_back(std::move(module));
    for (std::size_t i = 1; i < devices.size(); ++i) {
      const auto clone = detail::clone_module(*first, devices[i]);
      detail::share_weights(*first, *clone, devices[i]);
      states.push_back(detail::replica_module(first, clone));
      modules_.push_back(ModuleType(std::dynamic_pointer_cast<detail::ModuleClass<ModuleType>>(clone)));
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

/// Replicas of `module`, one per device, made once and kept: `parallel_apply` may be called on them for every batch.
/// The structure of the module must stay as it is; weights may change, be loaded, frozen or converted meanwhile.
/// @throws Error  if the module cannot be cloned (derive it from torch::nn::Cloneable), if its tensors are not on the
/// first device, or if devices repeat
template <typename ModuleType>
Replicas<ModuleType> replicate(ModuleType module, std::vector<ReplicaDevice> devices, ReplicaOptions options = {}) {
  return Replicas<ModuleType>(std::move(module), std::move(devices), options);
}

}  // namespace lockstep

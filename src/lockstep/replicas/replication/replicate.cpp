#include "lockstep/replicas/replicate.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/processor/heap.h"
#include "lockstep/tensor/kept_generator.h"

namespace lockstep::detail {
namespace {

using Modules = std::vector<std::shared_ptr<torch::nn::Module>>;

// `train` also sets all modules inside, so the modules are visited outermost first.
bool copy_training_modes(const Modules& from, const Modules& to) {
  bool any = false;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const bool mode = from[i]->is_training();
    if (to[i]->is_training() != mode) to[i]->train(mode);
    any = any || mode;
  }
  return any;
}

// The module and all modules inside it. The module itself has a pointer that does not own it, because its owner may
// keep this list: it must not keep itself alive.
Modules modules_inside(torch::nn::Module& module) {
  Modules modules{std::shared_ptr<torch::nn::Module>(&module, [](torch::nn::Module*) {})};
  for (auto& part : module.modules(/*include_self=*/false)) modules.push_back(std::move(part));
  return modules;
}

// Recognises what LibTorch's Cloneable says about a class that registers in its constructor instead of reset().
bool is_registered_outside_reset(const std::string& cause) {
  return cause.find("after calling reset()") != std::string::npos;
}

// A clone; at first it has weights of its own.
std::shared_ptr<torch::nn::Module> clone_module(const torch::nn::Module& module, const ReplicaDevice& device) {
  device.require_present();
  const KeptGenerator kept;                 // Cloneable draws initial values that are never used
  const c10::InferenceMode outside(false);  // a parameter made in inference mode could never be trained
  try {
    return device.is_cpu() ? module.clone() : module.clone(device.tensor_device());
  } catch (const c10::Error& error) {
    const std::string cause = error.what_without_backtrace();
    throw Error("the module " + module.name() + " cannot be cloned: " + cause, "replicate",
                is_registered_outside_reset(cause)
                    ? "create and register parameters, buffers and submodules in `void reset() override`, and call "
                      "reset() in the constructor: a clone is made by reset() alone"
                    : "derive it from torch::nn::Cloneable, or override `clone`");
  }
}

}  // namespace

std::shared_ptr<torch::nn::Module> make_replica(const torch::nn::Module& first, const ReplicaDevice& device) {
  auto replica = clone_module(first, device);
  auto targets = replica->named_parameters();
  for (const auto& source : first.named_parameters()) {
    if (at::Tensor* target = targets.find(source.key())) share_parameter(source.value(), *target, device);
  }  // ReplicaSet reports a missing one
  release_freed_memory();
  return replica;
}

void share_parameter(const at::Tensor& source, at::Tensor& target, const ReplicaDevice& device) {
  const c10::InferenceMode outside(false);
  if (device.is_cpu() && source.device().is_cpu()) target.set_data(source.detach());
  if (target.requires_grad() != source.requires_grad()) target.set_requires_grad(source.requires_grad());
}

ReplicaModule replica_module(torch::nn::Module& first, torch::nn::Module& replica) {
  ReplicaModule state;
  for (const auto& item : replica.named_parameters()) {
    state.parameters.push_back(item.value());
    state.names.push_back(item.key());
  }
  for (const auto& item : replica.named_buffers()) {
    state.buffers.push_back(item.value());
    state.names.push_back(item.key());
  }
  if (&first != &replica) {
    state.copy_modes = [from = modules_inside(first), to = modules_inside(replica)] {
      return copy_training_modes(from, to);
    };
  }
  return state;
}

void check_devices(const std::vector<ReplicaDevice>& devices) {
  if (devices.empty()) throw Error("there is no device to replicate on", "replicate", "name at least one device");
  for (auto device = devices.begin(); device != devices.end(); ++device) {
    if (std::find(devices.begin(), device, *device) != device) {
      throw Error("the device " + device->name() + " is named twice", "device_ids", "name each device once");
    }
  }
}

}  // namespace lockstep::detail

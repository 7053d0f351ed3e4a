// Replicas of TorchScript modules.
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/jit/api/module.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/processor/heap.h"
#include "lockstep/replicas/replicate.h"

namespace lockstep::detail {
namespace {

std::vector<torch::jit::Module> modules_of(const torch::jit::Module& module) {
  std::vector<torch::jit::Module> modules;
  for (const torch::jit::Module& part : module.modules()) modules.push_back(part);
  return modules;
}

std::vector<at::Tensor> buffers_of(const torch::jit::Module& module) {
  std::vector<at::Tensor> buffers;
  for (const at::Tensor& buffer : module.buffers()) buffers.push_back(buffer);
  return buffers;
}

// A copy of everything except the compiled methods, which all replicas share. Made without gradients, because the copy
// of a parameter would otherwise be computed from it.
torch::jit::Module copy_of(const torch::jit::Module& module) {
  const c10::InferenceMode outside(false);
  const at::NoGradGuard no_grad;
  try {
    return module.deepcopy();
  } catch (const c10::Error& error) {
    throw Error("the TorchScript module cannot be copied: " + std::string(error.what_without_backtrace()), "replicate",
                "keep objects of C++ classes without __getstate__ and __setstate__ out of its attributes");
  }
}

}  // namespace

torch::jit::Module make_replica(const torch::jit::Module& first, const ReplicaDevice& device) {
  device.require_present();
  torch::jit::Module replica = copy_of(first);
  if (!device.is_cpu()) replica.to(device.tensor_device());
  const auto sources = first.named_parameters();
  auto source = sources.begin();
  for (const auto& item : replica.named_parameters()) {  // both have one class, hence one order
    at::Tensor target = item.value;
    share_parameter((*source).value, target, device);
    ++source;
  }
  release_freed_memory();
  return replica;
}

ReplicaModule replica_module(torch::jit::Module& first, torch::jit::Module& replica) {
  ReplicaModule state;
  for (const auto& item : replica.named_parameters()) {
    state.parameters.push_back(item.value);
    state.names.push_back(item.name);
  }
  for (const auto& item : replica.named_buffers()) {
    state.buffers.push_back(item.value);
    state.names.push_back(item.name);
  }
  // `self.count = self.count + 1` replaces a buffer by another tensor. The lambda has its own handle, because the
  // caller's may be moved.
  state.find_buffers = [replica] { return buffers_of(replica); };
  if (first._ivalue() != replica._ivalue()) {
    state.copy_modes = [from = modules_of(first), to = modules_of(replica)]() mutable {
      bool any = false;
      for (std::size_t i = 0; i < from.size(); ++i) {
        const bool mode = from[i].is_training();
        if (to[i].is_training() != mode) to[i].setattr("training", mode);
        any = any || mode;
      }
      return any;
    };
  }
  return state;
}

}  // namespace lockstep::detail

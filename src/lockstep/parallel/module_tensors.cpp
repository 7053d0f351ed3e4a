#include "lockstep/parallel/module_tensors.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>

#include <unordered_set>
#include <utility>

namespace lockstep {
namespace {

// A parameter that is used in two places has two names and one gradient.
std::vector<NamedTensor> without_repeats(std::vector<NamedTensor> tensors) {
  std::unordered_set<const c10::TensorImpl*> seen;
  std::vector<NamedTensor> unique;
  for (auto& entry : tensors) {
    if (entry.tensor.defined() && seen.insert(entry.tensor.unsafeGetTensorImpl()).second) {
      unique.push_back(std::move(entry));
    }
  }
  return unique;
}

}  // namespace

ModuleTensors module_tensors(torch::nn::Module& module) {
  ModuleTensors result;
  std::vector<NamedTensor> parameters;
  for (const auto& item : module.named_parameters()) parameters.push_back({item.key(), item.value()});
  result.parameters = without_repeats(std::move(parameters));
  result.buffers = [&module] {
    std::vector<NamedTensor> buffers;
    for (const auto& item : module.named_buffers()) buffers.push_back({item.key(), item.value()});
    return without_repeats(std::move(buffers));
  };
  result.is_training = [&module] { return module.is_training(); };
  return result;
}

ModuleTensors module_tensors(const torch::jit::Module& module) {
  ModuleTensors result;
  std::vector<NamedTensor> parameters;
  for (const auto& item : module.named_parameters()) parameters.push_back({item.name, item.value});
  result.parameters = without_repeats(std::move(parameters));
  // A handle of its own: that of the caller may move.
  result.buffers = [module] {
    std::vector<NamedTensor> buffers;
    for (const auto& item : module.named_buffers()) buffers.push_back({item.name, item.value});
    return without_repeats(std::move(buffers));
  };
  result.is_training = [module] { return module.is_training(); };
  return result;
}

}  // namespace lockstep

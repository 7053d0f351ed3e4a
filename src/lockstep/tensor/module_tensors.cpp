#include "lockstep/detail/tensor/module_tensors.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>

#include <iterator>
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

std::vector<NamedTensor> parameters_of_module(const torch::nn::Module& module) {
  std::vector<NamedTensor> parameters;
  for (const auto& item : module.named_parameters()) parameters.push_back({item.key(), item.value()});
  return without_repeats(std::move(parameters));
}

std::vector<NamedTensor> parameters_of_module(const torch::jit::Module& module) {
  std::vector<NamedTensor> parameters;
  for (const auto& item : module.named_parameters()) parameters.push_back({item.name, item.value});
  return without_repeats(std::move(parameters));
}

// LibTorch's functions copy the list of a module's own parameters with their names; a derived class can read it in
// place.
struct OwnParameters : torch::nn::Module {
  static const auto& of(const torch::nn::Module& module) { return module.*(&OwnParameters::parameters_); }
};

void add_places(const torch::nn::Module& module, ParameterPlaces& places) {
  for (const auto& item : OwnParameters::of(module)) places.push_back(item.value().unsafeGetTensorImpl());
  for (const auto& child : module.children()) add_places(*child, places);
}

// Not by named_modules, which needs a module that is owned by a shared_ptr.
std::vector<NamedLayer> layers_of(const torch::nn::Module& module, const std::string& name) {
  std::vector<NamedLayer> layers{{name, module.name()}};
  for (const auto& child : module.named_children()) {
    std::vector<NamedLayer> below = layers_of(*child.value(), name.empty() ? child.key() : name + "." + child.key());
    layers.insert(layers.end(), std::make_move_iterator(below.begin()), std::make_move_iterator(below.end()));
  }
  return layers;
}

void add_sparse(const torch::nn::Module& module, ParameterPlaces& sparse) {
  if (const auto* table = dynamic_cast<const torch::nn::EmbeddingImpl*>(&module)) {
    if (table->options.sparse()) sparse.push_back(table->weight.unsafeGetTensorImpl());
  } else if (const auto* bag = dynamic_cast<const torch::nn::EmbeddingBagImpl*>(&module)) {
    if (bag->options.sparse()) sparse.push_back(bag->weight.unsafeGetTensorImpl());
  }
  for (const auto& child : module.children()) add_sparse(*child, sparse);
}

}  // namespace

ModuleTensors module_tensors(torch::nn::Module& module) {
  ModuleTensors result;
  result.parameters = parameters_of_module(module);
  result.layers = layers_of(module, "");
  add_sparse(module, result.sparse);
  result.current_parameters = [&module] { return parameters_of_module(module); };
  result.list_places = [&module](ParameterPlaces& places) {
    places.clear();
    add_places(module, places);
  };
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
  result.is_script = true;
  result.parameters = parameters_of_module(module);
  // The result has its own handles, because the caller's may move.
  result.current_parameters = [module] { return parameters_of_module(module); };
  result.list_places = [module](ParameterPlaces& places) {
    places.clear();
    for (const at::Tensor& parameter : module.parameters()) places.push_back(parameter.unsafeGetTensorImpl());
  };
  result.buffers = [module] {
    std::vector<NamedTensor> buffers;
    for (const auto& item : module.named_buffers()) buffers.push_back({item.name, item.value});
    return without_repeats(std::move(buffers));
  };
  result.is_training = [module] { return module.is_training(); };
  return result;
}

}  // namespace lockstep

#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace torch {
namespace jit {
struct Module;
}
namespace nn {
class Module;
}
}  // namespace torch

namespace lockstep {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// The tensor in every place of a module where a parameter may be, in one order: equal lists, same parameters.
using ParameterPlaces = std::vector<const c10::TensorImpl*>;

/// What data parallelism needs of a module, whatever its kind.
struct ModuleTensors {
  std::vector<NamedTensor> parameters;                ///< each tensor once, under its first name, in registration order
  std::function<std::vector<NamedTensor>()> buffers;  ///< asked anew each time, because a module may replace them
  std::function<bool()> is_training;
  std::function<std::vector<NamedTensor>()> current_parameters;  ///< `parameters` as they are now
  /// Those whose gradients are sparse, as far as a module says so: tables of Embedding and EmbeddingBag, not
  /// TorchScript.
  ParameterPlaces sparse;
  /// Puts those of now in place of what the list has. Cheap: looks at no name, unlike current_parameters.
  std::function<void(ParameterPlaces&)> list_places;
};

/// The module must outlive the result.
ModuleTensors module_tensors(torch::nn::Module& module);
/// A TorchScript module: its parameters and buffers under their TorchScript names.
ModuleTensors module_tensors(const torch::jit::Module& module);

}  // namespace lockstep

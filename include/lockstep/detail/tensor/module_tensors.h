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

/// A submodule, or the module itself, whose name is empty.
struct NamedLayer {
  std::string name;
  std::string type;  ///< of C++, demangled
};

/// The tensor at each position of a module that can hold a parameter, in a fixed order: equal lists mean equal
/// parameters.
using ParameterPlaces = std::vector<const c10::TensorImpl*>;

/// The view of a module, of any kind, that data parallelism needs.
struct ModuleTensors {
  std::vector<NamedTensor> parameters;                ///< each tensor once, under its first name, in registration order
  std::function<std::vector<NamedTensor>()> buffers;  ///< read again each time, because a module may replace them
  std::function<bool()> is_training;
  std::function<std::vector<NamedTensor>()> current_parameters;  ///< `parameters` as they are now
  /// Parameters with sparse gradients, as far as a module declares them: tables of Embedding and EmbeddingBag, not
  /// TorchScript.
  ParameterPlaces sparse;
  std::vector<NamedLayer> layers;  ///< in registration order, parents first; none of TorchScript
  bool is_script = false;
  /// Replaces the list's content by the current tensors. Cheap: looks up no names, unlike current_parameters.
  std::function<void(ParameterPlaces&)> list_places;
};

/// The module must outlive the result.
ModuleTensors module_tensors(torch::nn::Module& module);
/// A TorchScript module: its parameters and buffers under their TorchScript names.
ModuleTensors module_tensors(const torch::jit::Module& module);

}  // namespace lockstep

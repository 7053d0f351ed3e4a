#pragma once

#include <ATen/core/ivalue.h>

#include <type_traits>
#include <utility>

namespace torch {
namespace jit {
struct Module;
}
}  // namespace torch

namespace lockstep {

/// Whether a module is TorchScript, which is held by value, and not a module holder or a shared_ptr.
template <typename ModuleType>
constexpr bool kIsScriptModule = std::is_base_of_v<torch::jit::Module, ModuleType>;

/// The module's own forward. TorchScript takes what a c10::IValue can be made of, and returns one.
template <typename ModuleType, typename... Args>
auto call_forward(ModuleType& module, Args&&... args) {
  if constexpr (kIsScriptModule<ModuleType>) {
    return module.forward({c10::IValue(std::forward<Args>(args))...});
  } else {
    return module->forward(std::forward<Args>(args)...);
  }
}

}  // namespace lockstep

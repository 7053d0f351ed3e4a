#pragma once

#include <ATen/core/ivalue.h>

#include <utility>

#include "lockstep/detail/tensor/wrapped_module.h"

namespace lockstep {

/// Calls the module's own forward. TorchScript takes arguments that convert to c10::IValue, and returns a c10::IValue.
template <typename ModuleType, typename... Args>
auto call_forward(ModuleType& module, Args&&... args) {
  if constexpr (kIsScriptModule<ModuleType>) {
    return module.forward({c10::IValue(std::forward<Args>(args))...});
  } else {
    return module->forward(std::forward<Args>(args)...);
  }
}

}  // namespace lockstep

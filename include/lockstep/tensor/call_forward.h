#pragma once

#include <ATen/core/ivalue.h>

#include <utility>

#include "lockstep/tensor/wrapped_module.h"

namespace lockstep {

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

#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "lockstep/detail/tensor/module_tensors.h"

namespace lockstep {

/// The tensors without their names, in the same order.
inline std::vector<at::Tensor> tensors_of(const std::vector<NamedTensor>& entries) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(entries.size());
  for (const NamedTensor& entry : entries) tensors.push_back(entry.tensor);
  return tensors;
}

}  // namespace lockstep

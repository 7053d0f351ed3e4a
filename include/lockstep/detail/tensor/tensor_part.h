#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// Some elements of a tensor of which ranks have or save parts: [begin, end), counted in row-major order.
struct TensorPart {
  std::string name;
  std::vector<std::int64_t> sizes;  ///< shape of the whole tensor
  std::int64_t begin = 0;
  std::int64_t end = 0;
  at::Tensor tensor;  ///< these elements, in order; of any shape
};
using TensorParts = std::vector<TensorPart>;

}  // namespace lockstep

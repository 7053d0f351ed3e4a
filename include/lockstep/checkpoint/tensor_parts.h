#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/safetensors/safetensors.h"

namespace lockstep {

/// Some elements of a tensor that is saved in parts: [begin, end), counted in row-major order.
struct TensorPart {
  std::string name;
  std::vector<std::int64_t> sizes;  ///< shape of the whole tensor
  std::int64_t begin = 0;
  std::int64_t end = 0;
  at::Tensor tensor;  ///< these elements, in order; of any shape
};
using TensorParts = std::vector<TensorPart>;

/// What rank `rank` writes if `world_size` ranks, which all have the same tensors, share them out. All shares have
/// equally many bytes, but for the length of one element, and lie one behind the other in the order of `tensors`.
/// @return  views, if the tensors are contiguous; a tensor without elements is in the share of rank 0
TensorParts parts_of_rank(const NamedTensors& tensors, int rank, int world_size);

}  // namespace lockstep

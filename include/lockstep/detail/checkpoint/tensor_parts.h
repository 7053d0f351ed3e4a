#pragma once

#include "lockstep/detail/tensor/tensor_part.h"
#include "lockstep/safetensors/safetensors.h"

namespace lockstep {

/// What rank `rank` writes if `world_size` ranks, which all have the same tensors, share them out. All shares have
/// equally many bytes, but for the length of one element, and lie one behind the other in the order of `tensors`.
/// @return  views, if the tensors are contiguous; a tensor without elements is in the share of rank 0
TensorParts parts_of_rank(const NamedTensors& tensors, int rank, int world_size);

}  // namespace lockstep

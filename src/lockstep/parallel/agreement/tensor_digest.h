#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// 64 bits that differ, but for one chance in 2^64, where elements or their number do: a check against mistakes, not
/// against malice.
std::uint64_t tensor_digest(const at::Tensor& tensor);

/// A tensor that is not the same on all ranks.
struct TensorDifference {
  std::size_t index = 0;  ///< of the first one
  int rank = 0;           ///< the lowest that differs from rank 0
};

/// Compares tensors over the ranks, bit for bit, by their digests: 8 bytes each. Collective, with the same number of
/// tensors everywhere. @return  nothing where all are equal; else the same on every rank
std::optional<TensorDifference> find_tensor_difference(Communicator& communicator,
                                                       const std::vector<at::Tensor>& tensors);

}  // namespace lockstep

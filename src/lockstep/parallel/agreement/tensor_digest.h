#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// A 64-bit digest of the elements and their number. Different tensors have equal digests with a probability of 2^-64:
/// it guards against mistakes, not against malice.
std::uint64_t tensor_digest(const at::Tensor& tensor);

/// A tensor that differs between ranks.
struct TensorDifference {
  std::size_t index = 0;  ///< index of the tensor
  int rank = 0;           ///< the lowest rank that differs from rank 0
};

/// Compares tensors over the ranks, bit for bit, by their digests of 8 bytes. Collective, with the same number of
/// tensors on every rank. @return  those that differ, in order; the same on every rank
std::vector<TensorDifference> find_tensor_differences(Communicator& communicator,
                                                      const std::vector<at::Tensor>& tensors);
/// The first of them, or nothing if all are equal.
std::optional<TensorDifference> find_tensor_difference(Communicator& communicator,
                                                       const std::vector<at::Tensor>& tensors);

}  // namespace lockstep

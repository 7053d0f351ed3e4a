#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// One piece of memory for all ranks, which share memory, with unspecified content. The pages of each rank's part are
/// on its node of the machine. Collective.
/// @param numel  a multiple of the number of ranks
/// @throws Error  on every rank, if memory is short on some rank
at::Tensor allocate_one_copy(Communicator& communicator, std::int64_t numel, const at::TensorOptions& options);

/// The same for one rank: memory of its own.
at::Tensor allocate_own_copy(std::int64_t numel, const at::TensorOptions& options);

}  // namespace lockstep

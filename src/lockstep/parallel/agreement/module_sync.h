#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/detail/tensor/module_tensors.h"

namespace lockstep {

/// Checks that every rank holds parameters with equal names, shapes, dtypes and strides, in the same order, and that
/// they agree on which parameters require a gradient. Collective.
/// @param what  "parameter", for messages
/// @param compares_deferred  true: also whether a weight is deferred, and how it would be made
/// @throws Error  on every rank, naming the first parameter that differs, the rank where it differs, and both sides
void check_equal_across_ranks(Communicator& communicator, const std::vector<NamedTensor>& parameters, const char* what,
                              bool compares_deferred = false);
/// Checks names, shapes and dtypes of buffers.
void check_equal_buffers_across_ranks(Communicator& communicator, const std::vector<NamedTensor>& buffers);

/// Copies `root`'s tensors to every rank, bit for bit: in a few large messages, for any dtype. Collective.
/// @param chunk_bytes  approximate size of a message, which is also the additional memory that this needs
void broadcast_coalesced(Communicator& communicator, const std::vector<at::Tensor>& tensors, int root,
                         std::int64_t chunk_bytes = std::int64_t{250} << 20);

}  // namespace lockstep

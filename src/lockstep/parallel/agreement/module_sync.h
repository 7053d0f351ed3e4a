#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/tensor/module_tensors.h"

namespace lockstep {

/// Checks that every rank holds parameters of the same names, shapes, dtypes and strides, in the same order, and that
/// the same ones require a gradient. Collective.
/// @param what  "parameter", for messages
/// @throws Error  on every rank, naming the first that differs, the rank where it does, and both sides
void check_equal_across_ranks(Communicator& communicator, const std::vector<NamedTensor>& parameters, const char* what);
/// The same for names, shapes and dtypes of buffers.
void check_equal_buffers_across_ranks(Communicator& communicator, const std::vector<NamedTensor>& buffers);

/// Makes every rank's tensors bit for bit those of `root`: in a few large messages, any dtype. Collective.
/// @param chunk_bytes  a message carries about this many bytes, which is also the memory that this takes beside the
/// tensors
void broadcast_coalesced(Communicator& communicator, const std::vector<at::Tensor>& tensors, int root,
                         std::int64_t chunk_bytes = std::int64_t{250} << 20);

}  // namespace lockstep

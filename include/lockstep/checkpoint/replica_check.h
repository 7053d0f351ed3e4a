#pragma once

#include <cstddef>
#include <string>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/detail/checkpoint/tensor_parts.h"
#include "lockstep/safetensors/safetensors.h"

namespace lockstep {

/// SHA-256 of names, dtypes, shapes and elements, as 64 hexadecimal digits.
std::string tensors_checksum(const NamedTensors& tensors);

/// Checks that the ranks' tensors are equal, bit for bit. Collective.
/// @param what  describes the tensors in the error: "weights after loading checkpoint-40"
/// @throws Error  on every rank, naming the ranks that differ from rank 0
void check_replicas_equal(Communicator& communicator, const NamedTensors& tensors, const std::string& what);

/// Checks that each rank has loaded into `parts` what rank 0 reads from the checkpoint's files, whose bytes rank 0 has
/// verified: hosts may see other files under the same path. No rank holds another's elements, but for one tensor at a
/// time. Collective. @param what  as above. @param index  of the model, if the checkpoint has several
/// @throws Error  on every rank, naming the ranks that have read something else
void check_parts_as_saved(Communicator& communicator, const Checkpoint& checkpoint, const TensorParts& parts,
                          const std::string& what, std::size_t index = 0);

}  // namespace lockstep

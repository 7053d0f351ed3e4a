#pragma once

#include <string>

#include "lockstep/comm/communicator.h"
#include "lockstep/safetensors/safetensors.h"

namespace lockstep {

/// SHA-256 of names, dtypes, shapes and elements, as 64 hexadecimal digits.
std::string tensors_checksum(const NamedTensors& tensors);

/// Checks that the ranks' tensors are equal, bit for bit. Collective.
/// @param what  describes the tensors in the error: "weights after loading checkpoint-40"
/// @throws Error  on every rank, naming the ranks that differ from rank 0
void check_replicas_equal(Communicator& communicator, const NamedTensors& tensors, const std::string& what);

}  // namespace lockstep

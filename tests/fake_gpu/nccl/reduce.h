#pragma once

#include <nccl.h>

#include <cstddef>

namespace fake_gpu {

/// Bytes of an element; 0 for a type that is not imitated.
std::size_t size_of(ncclDataType_t type);
/// into[i] = into[i] op from[i]. Halves are added in float and rounded after each rank, as NCCL's ring does.
void combine(void* into, const void* from, std::size_t count, ncclDataType_t type, ncclRedOp_t op);
/// What ncclAvg does to each rank's value before it is added: NCCL divides first.
void divide(void* values, std::size_t count, ncclDataType_t type, int by);

}  // namespace fake_gpu

#pragma once

#include <c10/core/ScalarType.h>
#include <nccl.h>

#include <cstddef>

#include "lockstep/detail/comm/operation.h"

static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 14, 0), "communicators that do not block came with NCCL 2.14");

namespace lockstep {

/// NCCL's names for the types and reductions that Communicator has checked. Types that NCCL cannot compute with are
/// moved as bytes.
ncclDataType_t nccl_type(c10::ScalarType dtype);
/// How many of NCCL's elements one element of a tensor is.
std::size_t nccl_elements(c10::ScalarType dtype);
ncclRedOp_t nccl_reduction(ReduceOp op);

}  // namespace lockstep

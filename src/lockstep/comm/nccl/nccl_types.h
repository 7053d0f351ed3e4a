#pragma once

#include <c10/core/ScalarType.h>
#include <nccl.h>

#include "lockstep/comm/operation.h"

static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 14, 0), "communicators that do not block came with NCCL 2.14");

namespace lockstep {

/// NCCL's names for what Communicator has checked.
ncclDataType_t nccl_type(c10::ScalarType dtype);
ncclRedOp_t nccl_reduction(ReduceOp op);

}  // namespace lockstep

#pragma once

#include <c10/core/ScalarType.h>

#include "lockstep/comm/reduce/reduce.h"
#include "lockstep/detail/comm/operation.h"

namespace lockstep {

/// The kernels' names for the dtypes and reductions that Communicator has checked.
shm::Element element_of(c10::ScalarType dtype);
shm::Reduction reduction_of(ReduceOp op);

}  // namespace lockstep

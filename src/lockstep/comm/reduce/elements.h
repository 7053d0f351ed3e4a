#pragma once

#include <c10/core/ScalarType.h>

#include "lockstep/comm/operation.h"
#include "lockstep/comm/reduce/reduce.h"

namespace lockstep {

/// The kernels' names for what Communicator has checked: a dtype that collectives carry, a reduction.
shm::Element element_of(c10::ScalarType dtype);
shm::Reduction reduction_of(ReduceOp op);

}  // namespace lockstep

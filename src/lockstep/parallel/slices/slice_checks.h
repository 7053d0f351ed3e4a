#pragma once

#include "lockstep/comm/communicator.h"
#include "lockstep/detail/tensor/module_tensors.h"
#include "lockstep/parallel/distributed_data_parallel.h"

namespace lockstep {

/// @throws Error  on every rank, if options, module or group do not fit slices: a number below 1 for some rank,
/// and whatever would let bits depend on the number of ranks
void check_slices(const DistributedDataParallelOptions& options, const ModuleTensors& tensors,
                  const Communicator& communicator);

}  // namespace lockstep

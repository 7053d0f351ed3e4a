#pragma once

#include <memory>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/detail/tensor/module_tensors.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/reducer/reducer.h"

namespace lockstep {

// What DistributedDataParallel checks and decides when it wraps a module.

/// @param carrier  of the gradients
ReducerOptions reducer_options(const DistributedDataParallelOptions& options, const Communicator& carrier);
/// Whether the module declares that the parameter's gradients are sparse.
bool is_sparse(const ModuleTensors& tensors, const NamedTensor& parameter);
/// The module's parameters, by how their gradients are averaged.
ReducerParameters reducer_parameters(const ModuleTensors& tensors);
/// If ranks disagreed about an option, one of them would wait forever, or gradients of different parameters would be
/// added. Collective. @throws Error  on every rank, if ranks have different options
void check_equal_options(Communicator& communicator, const DistributedDataParallelOptions& options,
                         const ModuleTensors& tensors);
/// Among the group's communicators, the one that carries the module's gradients. It keeps the group alive.
std::shared_ptr<Communicator> carrier_of_gradients(std::shared_ptr<Communicator> group, const ModuleTensors& tensors);
/// @throws Error  if these parameters cannot be trained on the communicator's device
void check_trainable(const Communicator& communicator, const std::vector<NamedTensor>& parameters);

}  // namespace lockstep

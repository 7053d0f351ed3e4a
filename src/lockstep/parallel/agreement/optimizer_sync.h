#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/detail/tensor/module_tensors.h"
#include "lockstep/optim/flat_optimizer.h"

namespace lockstep {

/// Gives every rank's parameter groups the root's options, such as learning rates and momentum. Collective.
void broadcast_group_options(Communicator& communicator, FlatOptimizer& optimizer, int root);

/// Makes every rank's `optimizer` equal to `root`'s, bit for bit: state and options (learning rates among them). For a
/// fused optimizer this concerns only the part that its step does not cover, because each rank owns its share of the
/// rest. For LibTorch's optimizers it is what their `save` and their options' `serialize` write. Collective.
/// @throws Error  on every rank, if the root cannot save it, as with LBFGS, or another rank cannot load it
void broadcast_optimizer(Communicator& communicator, torch::optim::Optimizer& optimizer, int root);

/// The optimizers that may have updated `parameters`: Lockstep's, which are registered, and `given`, each once.
std::vector<torch::optim::Optimizer*> optimizers_of(const std::vector<at::Tensor>& parameters,
                                                    const std::vector<torch::optim::Optimizer*>& given);

/// The first of `parameters` that requires a gradient and is updated by none of `optimizers`; null if all are updated.
const NamedTensor* first_without_optimizer(const std::vector<NamedTensor>& parameters,
                                           const std::vector<torch::optim::Optimizer*>& optimizers);

}  // namespace lockstep

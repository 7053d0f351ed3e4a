#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/tensor/module_tensors.h"

namespace lockstep {

/// Gives every rank's parameter groups the root's options: learning rates, momentum. Collective.
void broadcast_group_options(Communicator& communicator, FlatOptimizer& optimizer, int root);

/// Makes every rank's `optimizer` what it is on `root`: state and options (learning rates among them), to the bit. Of a
/// fused optimizer the part that its step does not cover; the other part is nobody else's. Of LibTorch's optimizers
/// what their `save` and their options' `serialize` write. Collective.
/// @throws Error  on every rank, if that cannot be saved on the root, as LBFGS's, or loaded on another rank
void broadcast_optimizer(Communicator& communicator, torch::optim::Optimizer& optimizer, int root);

/// The optimizers that may have updated `parameters`: those of Lockstep, which are known, and `given`, each once.
std::vector<torch::optim::Optimizer*> optimizers_of(const std::vector<at::Tensor>& parameters,
                                                    const std::vector<torch::optim::Optimizer*>& given);

/// The first of `parameters` that requires a gradient and that none of `optimizers` updates; null: there is none.
const NamedTensor* first_without_optimizer(const std::vector<NamedTensor>& parameters,
                                           const std::vector<torch::optim::Optimizer*>& optimizers);

}  // namespace lockstep

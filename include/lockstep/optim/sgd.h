#pragma once

#include <torch/optim/sgd.h>

#include <vector>

#include "lockstep/optim/flat_optimizer.h"

namespace lockstep {

/// torch::optim::SGD over flat memory: momentum, dampening, Nesterov, weight decay, each per parameter group.
///
///     lockstep::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
class SGD : public FlatOptimizer {
 public:
  using Options = torch::optim::SGDOptions;

  /// @throws Error  if a rate is negative, or if Nesterov is used without momentum or with dampening
  explicit SGD(std::vector<torch::optim::OptimizerParamGroup> param_groups, Options defaults);
  explicit SGD(std::vector<at::Tensor> parameters, Options defaults);
};

using Sgd [[deprecated("its name is SGD, as in LibTorch")]] = SGD;

}  // namespace lockstep

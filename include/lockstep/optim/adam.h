#pragma once

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>

#include <vector>

#include "lockstep/optim/flat_optimizer.h"

namespace lockstep {

/// torch::optim::Adam over flat memory: betas, eps, weight decay as an L2 penalty, and amsgrad, each per parameter
/// group (Kingma and Ba, 2015, arXiv:1412.6980).
///
///     lockstep::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-3));
class Adam : public FlatOptimizer {
 public:
  using Options = torch::optim::AdamOptions;

  /// @throws Error  if a rate is negative, or a beta outside [0, 1)
  explicit Adam(std::vector<torch::optim::OptimizerParamGroup> param_groups, Options defaults = {});
  explicit Adam(std::vector<at::Tensor> parameters, Options defaults = {});
};

/// torch::optim::AdamW over flat memory: Adam with decoupled weight decay (Loshchilov and Hutter, 2019,
/// arXiv:1711.05101).
class AdamW : public FlatOptimizer {
 public:
  using Options = torch::optim::AdamWOptions;

  /// @throws Error  as Adam
  explicit AdamW(std::vector<torch::optim::OptimizerParamGroup> param_groups, Options defaults = {});
  explicit AdamW(std::vector<at::Tensor> parameters, Options defaults = {});
};

}  // namespace lockstep

#pragma once

#include <torch/optim/optimizer.h>

#include <vector>

namespace lockstep {

/// Gives the groups of `optimizer` the options of `groups`, field by field. An optimizer's constructor does not: from
/// LibTorch 2.9 on it replaces each field that has the value of a new options object by the optimizer's default, so a
/// group with a weight decay of 0 gets the decay of the others.
/// @param groups  as many as `optimizer` has; those without options leave the optimizer's as they are
void set_group_options(torch::optim::Optimizer& optimizer,
                       const std::vector<torch::optim::OptimizerParamGroup>& groups);

}  // namespace lockstep

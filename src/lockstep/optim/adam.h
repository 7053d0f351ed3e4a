#pragma once

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>

#include "lockstep/optim/adam_family.h"

namespace lockstep {

extern template class AdamFamily<torch::optim::Adam, torch::optim::AdamOptions, torch::optim::AdamParamState, false>;
extern template class AdamFamily<torch::optim::AdamW, torch::optim::AdamWOptions, torch::optim::AdamWParamState, true>;

/// torch::optim::Adam over flat memory: betas, eps, weight decay as an L2 penalty, amsgrad, each per parameter group
/// (Kingma and Ba, 2015, arXiv:1412.6980).
///
///     lockstep::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-3));
class Adam : public AdamFamily<torch::optim::Adam, torch::optim::AdamOptions, torch::optim::AdamParamState, false> {
 public:
  using AdamFamily::AdamFamily;
};

/// torch::optim::AdamW over flat memory: Adam with decoupled weight decay (Loshchilov and Hutter, 2019,
/// arXiv:1711.05101).
class AdamW : public AdamFamily<torch::optim::AdamW, torch::optim::AdamWOptions, torch::optim::AdamWParamState, true> {
 public:
  using AdamFamily::AdamFamily;
};

}  // namespace lockstep

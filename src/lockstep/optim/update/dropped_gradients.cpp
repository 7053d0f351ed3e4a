#include "lockstep/optim/update/dropped_gradients.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

namespace lockstep {

bool DroppedGradients::drop(at::Tensor& parameter) {
  at::Tensor& gradient = parameter.mutable_grad();
  if (!gradient.defined() || !gradient.is_cuda() || gradient.layout() != at::kStrided) return false;
  gradient.reset();
  dropped_.insert(parameter.unsafeGetTensorImpl());
  return true;
}

void DroppedGradients::bring_back(const std::vector<torch::optim::OptimizerParamGroup>& groups) {
  if (dropped_.empty()) return;
  const at::NoGradGuard no_grad;
  for (const auto& group : groups) {
    for (const at::Tensor& parameter : group.params()) {
      if (parameter.grad().defined() || dropped_.count(parameter.unsafeGetTensorImpl()) == 0) continue;
      parameter.mutable_grad() = at::zeros_like(parameter);
    }
  }
  dropped_.clear();
}

}  // namespace lockstep

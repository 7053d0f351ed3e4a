#include "lockstep/optim/clip_grad_norm.h"

#include <fmt/format.h>

#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/optim/gradient_memory.h"

namespace lockstep {

double clip_factor(double norm, double max_norm) {
  const double factor = max_norm / (norm + 1e-6);
  return factor > 1 ? 1 : factor;
}

void check_norm_is_finite(double norm, double norm_type, std::size_t gradients) {
  if (std::isfinite(norm)) return;
  throw Error(fmt::format("the norm of order {} of {} gradients is {}", norm_type, gradients, norm), "clip_grad_norm_",
              "look for an infinite loss or a learning rate that is too large; with loss scaling, call unscale_ first");
}

double clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm, double norm_type,
                       bool error_if_nonfinite) {
  const GradientMemory gradients(parameters);
  if (gradients.count() == 0) return 0;
  const double norm = gradients.norm(norm_type);
  if (error_if_nonfinite) check_norm_is_finite(norm, norm_type, gradients.count());
  const double factor = clip_factor(norm, max_norm);
  if (factor != 1) gradients.scale(factor);
  return norm;
}

double clip_grad_norm_(FlatOptimizer& optimizer, double max_norm, double norm_type, bool error_if_nonfinite) {
  if (StepDelegate* delegate = optimizer.step_delegate()) {
    return delegate->clip_grad_norm(max_norm, norm_type, error_if_nonfinite);
  }
  std::vector<at::Tensor> parameters;
  for (const auto& group : optimizer.param_groups()) {
    parameters.insert(parameters.end(), group.params().begin(), group.params().end());
  }
  return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite);
}

}  // namespace lockstep

#include "lockstep/optim/clip_grad_norm.h"

#include <fmt/format.h>

#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/optim/gradient_memory.h"

namespace lockstep {

double clip_factor(double norm, double max_norm) {
  const double factor = max_norm / (norm + 1e-6);
  return factor > 1 ? 1 : factor;
}

double clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm, double norm_type,
                       bool error_if_nonfinite) {
  const GradientMemory gradients(parameters);
  if (gradients.count() == 0) return 0;
  const double norm = gradients.norm(norm_type);
  if (error_if_nonfinite && !std::isfinite(norm)) {
    throw Error(
        fmt::format("the norm of order {} of {} gradients is {}", norm_type, gradients.count(), norm),
        "clip_grad_norm_",
        "look for an infinite loss or a learning rate that is too large; with loss scaling, call unscale_ first");
  }
  const double factor = clip_factor(norm, max_norm);
  if (factor != 1) gradients.scale(factor);
  return norm;
}

}  // namespace lockstep

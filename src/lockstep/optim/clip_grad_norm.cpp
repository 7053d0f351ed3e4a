#include "lockstep/optim/clip_grad_norm.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/optim/clip_bound.h"
#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/optim/optimizer_registry.h"
#include "lockstep/optim/update/gradient_memory.h"

namespace lockstep {
namespace {

// Parameters whose gradients one fused update averages.
struct FusedPart {
  StepDelegate* step;
  std::vector<at::Tensor> parameters;
};

// Takes the parameters of fused updates out of `parameters`.
std::vector<FusedPart> take_fused_parts(std::vector<at::Tensor>& parameters) {
  std::vector<FusedPart> parts;
  for (FlatOptimizer* optimizer : optimizer_registry::find(parameters)) {
    StepDelegate* step = optimizer->step_delegate();
    if (step == nullptr) continue;
    const auto others = std::stable_partition(parameters.begin(), parameters.end(),
                                              [&](const at::Tensor& parameter) { return !step->covers(parameter); });
    if (others != parameters.end()) parts.push_back({step, {others, parameters.end()}});
    parameters.erase(others, parameters.end());
  }
  return parts;
}

// The norm of two pieces together.
double joint_norm(double a, double b, double p) {
  if (p == 0) return a + b;  // numbers of gradients
  if (std::isinf(p)) return std::isnan(a) || (p > 0 ? a > b : a < b) ? a : b;
  return p == 2 ? std::sqrt(a * a + b * b) : std::pow(std::pow(a, p) + std::pow(b, p), 1 / p);
}

}  // namespace

double clip_factor(double norm, double max_norm) {
  const double factor = max_norm / (norm + 1e-6);
  return factor > 1 ? 1 : factor;
}

void check_norm_is_finite(double norm, double norm_type, std::size_t gradients) {
  if (std::isfinite(norm)) return;
  throw Error(fmt::format("the norm of order {} of {} gradients is {}", norm_type, gradients, norm), "clip_grad_norm_",
              "look for an infinite loss or too large a learning rate; with loss scaling, call unscale_ first");
}

double clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm, double norm_type,
                       bool error_if_nonfinite) {
  check_clip_bound(max_norm, "max_norm", "clip_grad_norm_");
  if (std::isnan(norm_type)) {
    throw Error("norm_type is NaN, which is not the order of a norm", "clip_grad_norm_",
                "give it 2, infinity, or the order that you want");
  }
  std::vector<at::Tensor> own = parameters;
  const std::vector<FusedPart> fused = take_fused_parts(own);
  const GradientMemory gradients(own);
  if (gradients.count() == 0 && fused.empty()) return 0;
  std::optional<double> joint;
  if (gradients.count() > 0) joint = gradients.norm(norm_type);
  for (const FusedPart& part : fused) {
    const double averages = part.step->gradient_norm(part.parameters, {max_norm, norm_type, error_if_nonfinite});
    if (averages < 0) continue;  // no gradients
    joint = joint ? joint_norm(*joint, averages, norm_type) : averages;
  }
  if (!joint) return 0;
  const double norm = *joint;
  if (error_if_nonfinite) check_norm_is_finite(norm, norm_type, fused.empty() ? gradients.count() : parameters.size());
  const double factor = clip_factor(norm, max_norm);
  if (factor == 1) return norm;
  for (const FusedPart& part : fused) part.step->scale_gradients(part.parameters, factor);
  gradients.multiply(factor);
  return norm;
}

void clip_grad_value_(const std::vector<at::Tensor>& parameters, double clip_value) {
  check_clip_bound(clip_value, "clip_value", "clip_grad_value_");
  std::vector<at::Tensor> own = parameters;
  if (!take_fused_parts(own).empty()) {
    throw Error(
        "an optimizer of these parameters is fused: each rank holds gradients of its own, and cutting their "
        "elements is not cutting those of the average",
        "clip_grad_value_", "clip by norm, with clip_grad_norm_, or leave out fuse");
  }
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : own) {
    if (parameter.grad().defined()) gradient_elements(parameter).clamp_(-clip_value, clip_value);
  }
}

double clip_grad_norm_(FlatOptimizer& optimizer, double max_norm, double norm_type, bool error_if_nonfinite) {
  std::vector<at::Tensor> parameters;
  for (const auto& group : optimizer.param_groups()) {
    parameters.insert(parameters.end(), group.params().begin(), group.params().end());
  }
  return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite);
}

}  // namespace lockstep

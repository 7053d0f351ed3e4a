#include "lockstep/optim/grad_scaler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/optim/update/gradient_memory.h"

namespace lockstep {
namespace {

[[noreturn]] void refuse_option(const std::string& what, const std::string& fix) {
  throw Error(what, "GradScaler", fix);
}

}  // namespace

GradScaler::GradScaler(Options options) : options_(options) {
  if (!(options_.growth_factor > 1)) {
    refuse_option(fmt::format("growth_factor is {}", options_.growth_factor), "set it above 1");
  }
  if (!(options_.backoff_factor > 0 && options_.backoff_factor < 1)) {
    refuse_option(fmt::format("backoff_factor is {}", options_.backoff_factor), "set it between 0 and 1");
  }
  if (!(options_.init_scale > 0)) refuse_option(fmt::format("init_scale is {}", options_.init_scale), "set it above 0");
  state_.scale = options_.init_scale;
}

at::Tensor GradScaler::scale(const at::Tensor& loss) const { return options_.enabled ? loss.mul(state_.scale) : loss; }

// Rounded as PyTorch keeps it.
double GradScaler::inverse_scale() const { return static_cast<double>(static_cast<float>(1 / state_.scale)); }

void GradScaler::unscale_(torch::optim::Optimizer& optimizer) {
  if (!options_.enabled) return;
  const auto* flat = dynamic_cast<const FlatOptimizer*>(&optimizer);
  if (flat != nullptr && flat->has_step_delegate()) {
    refuse_option("unscale_ was called on a fused optimizer, whose step sums the ranks' gradients itself",
                  "clip with the StepOptions of GradScaler::step");
  }
  Progress& progress = progress_[&optimizer];
  if (progress.stage != Stage::Ready) {
    refuse_option(progress.stage == Stage::Unscaled ? "unscale_ was called twice" : "unscale_ was called after step",
                  "call it once an iteration, between backward and step, and update at the end");
  }
  std::vector<at::Tensor> parameters;
  for (const auto& group : optimizer.param_groups()) {
    parameters.insert(parameters.end(), group.params().begin(), group.params().end());
  }
  progress.found_inf = !GradientMemory(parameters).scale(inverse_scale());
  progress.stage = Stage::Unscaled;
}

GradScaler::Progress& GradScaler::begin_step(torch::optim::Optimizer& optimizer) {
  Progress& progress = progress_[&optimizer];
  if (progress.stage == Stage::Stepped)
    refuse_option("step was called twice", "call update at the end of each iteration");
  return progress;
}

bool GradScaler::step(torch::optim::Optimizer& optimizer) {
  if (auto* flat = dynamic_cast<FlatOptimizer*>(&optimizer)) return !step(*flat, StepOptions{}).skipped;
  if (!options_.enabled) {
    optimizer.step();
    return true;
  }
  if (begin_step(optimizer).stage == Stage::Ready) unscale_(optimizer);
  Progress& progress = progress_[&optimizer];
  progress.stage = Stage::Stepped;
  if (!progress.found_inf) optimizer.step();
  return !progress.found_inf;
}

StepResult GradScaler::step(FlatOptimizer& optimizer, StepOptions options) {
  if (!options_.enabled) return optimizer.step_with(options);
  Progress& progress = begin_step(optimizer);
  StepResult result;
  if (progress.stage == Stage::Ready) {
    options.gradient_factor *= inverse_scale();
    options.check_finite = true;
    result = optimizer.step_with(options);
    progress.found_inf = result.skipped;
  } else if (progress.found_inf) {
    result.skipped = true;
    if (options.zero_grad) optimizer.zero_grad();
  } else {
    result = optimizer.step_with(options);
  }
  progress.stage = Stage::Stepped;
  return result;
}

bool GradScaler::is_unscaled(const torch::optim::Optimizer& optimizer) const {
  const auto found = progress_.find(&optimizer);
  return found != progress_.end() && found->second.stage == Stage::Unscaled;
}

bool GradScaler::is_waiting() const {
  return std::any_of(progress_.begin(), progress_.end(),
                     [](const auto& entry) { return entry.second.stage == Stage::Unscaled; });
}

void GradScaler::update() {
  if (!options_.enabled) return;
  if (progress_.empty()) refuse_option("update was called without a step before it", "call step or unscale_ first");
  last_skipped_ =
      std::any_of(progress_.begin(), progress_.end(), [](const auto& entry) { return entry.second.found_inf; });
  progress_.clear();
  if (last_skipped_) {
    state_.scale *= options_.backoff_factor;
    state_.growth_tracker = 0;
    return;
  }
  if (++state_.growth_tracker < options_.growth_interval) return;
  state_.growth_tracker = 0;
  // PyTorch keeps the scale in fp32, so it does not grow beyond that range.
  const double grown = state_.scale * options_.growth_factor;
  if (std::isfinite(static_cast<float>(grown))) state_.scale = grown;
}

void GradScaler::update(double new_scale) {
  if (!options_.enabled) return;
  if (!(new_scale > 0)) refuse_option(fmt::format("the new scale is {}", new_scale), "set it above 0");
  state_.scale = new_scale;
  progress_.clear();
}

}  // namespace lockstep

#include "lockstep/optim/lr_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {

LambdaLR::LambdaLR(torch::optim::Optimizer& optimizer, Schedule schedule)
    : LRScheduler(optimizer), optimizer_(optimizer), schedule_(std::move(schedule)) {
  step();
}

std::vector<double> LambdaLR::get_lrs() {
  ++last_step_;
  return lrs_at_last_step();
}

std::vector<double> LambdaLR::lrs_at_last_step() {
  const std::vector<double> current = get_current_lrs();
  while (initial_lrs_.size() < current.size()) initial_lrs_.push_back(current[initial_lrs_.size()]);
  const double factor = schedule_(last_step_);
  std::vector<double> lrs;
  for (const double initial : initial_lrs_) lrs.push_back(initial * factor);
  return lrs;
}

void LambdaLR::load_state(const State& state) {
  auto& groups = optimizer_.param_groups();
  if (state.initial_lrs.size() != groups.size()) {
    throw Error(
        fmt::format("there are {} parameter groups here, but {} in the state", groups.size(), state.initial_lrs.size()),
        "LambdaLR", "build the optimizer with the groups that the state was saved with");
  }
  last_step_ = state.last_step;
  initial_lrs_ = state.initial_lrs;
  const std::vector<double> lrs = lrs_at_last_step();
  for (std::size_t i = 0; i < groups.size(); ++i) groups[i].options().set_lr(lrs[i]);
}

ReduceLROnPlateau::ReduceLROnPlateau(torch::optim::Optimizer& optimizer, Options options)
    : optimizer_(optimizer), options_(std::move(options)) {
  const auto refuse = [](const std::string& what, const char* fix) { throw Error(what, "ReduceLROnPlateau", fix); };
  if (options_.mode != "min" && options_.mode != "max") refuse("mode is " + options_.mode, "choose min or max");
  if (options_.threshold_mode != "rel" && options_.threshold_mode != "abs") {
    refuse("threshold_mode is " + options_.threshold_mode, "choose rel or abs");
  }
  if (!(options_.factor < 1)) refuse(fmt::format("factor is {}", options_.factor), "set it below 1");
  const double infinity = std::numeric_limits<double>::infinity();
  state_.best = options_.mode == "min" ? infinity : -infinity;
}

bool ReduceLROnPlateau::is_better(double metric) const {
  const bool relative = options_.threshold_mode == "rel";
  if (options_.mode == "min") {
    return metric < (relative ? state_.best * (1 - options_.threshold) : state_.best - options_.threshold);
  }
  return metric > (relative ? state_.best * (1 + options_.threshold) : state_.best + options_.threshold);
}

bool ReduceLROnPlateau::step(double metric) {
  if (is_better(metric)) {
    state_.best = metric;
    state_.num_bad_epochs = 0;
  } else {
    ++state_.num_bad_epochs;
  }
  if (state_.cooldown_counter > 0) {
    --state_.cooldown_counter;
    state_.num_bad_epochs = 0;
  }
  if (state_.num_bad_epochs <= options_.patience) return false;
  state_.cooldown_counter = options_.cooldown;
  state_.num_bad_epochs = 0;
  return lower_rates();
}

bool ReduceLROnPlateau::lower_rates() {
  bool lowered = false;
  for (auto& group : optimizer_.param_groups()) {
    const double old_lr = group.options().get_lr();
    const double new_lr = std::max(old_lr * options_.factor, options_.min_lr);
    if (old_lr - new_lr <= options_.eps) continue;
    group.options().set_lr(new_lr);
    lowered = true;
  }
  return lowered;
}

}  // namespace lockstep

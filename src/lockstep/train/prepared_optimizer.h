#pragma once

#include <torch/optim/optimizer.h>
#include <torch/optim/schedulers/lr_scheduler.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "lockstep/optim/grad_scaler.h"
#include "lockstep/train/accumulation.h"

namespace lockstep {

/// What prepared objects share with their Accelerator.
struct UpdateState {
  explicit UpdateState(std::int64_t accumulation_steps) : accumulation(accumulation_steps) {}
  GradientAccumulation accumulation;
  std::int64_t open_backwards = 0;                ///< since the last update
  std::optional<GradScaler> scaler;               ///< of fp16
  std::set<const torch::optim::Optimizer*> left;  ///< whose last step was left out, for a gradient without a number
};

/// An optimizer whose `step` does nothing until a window of gradient accumulation is full. `zero_grad` keeps the
/// gradients of a window that is not full, wherever in the loop it stands; Accelerate's throws them away where it
/// stands before backward. Under fp16 a step whose gradients hold an infinity or NaN is left out. Copies are the same
/// optimizer.
class PreparedOptimizer {
 public:
  /// @param optimizer  must outlive this object
  PreparedOptimizer(torch::optim::Optimizer& optimizer, std::shared_ptr<UpdateState> state)
      : optimizer_(&optimizer), state_(std::move(state)) {}

  void step();
  void zero_grad();
  /// Whether the last step was left out.
  bool step_was_skipped() const { return state_->left.count(optimizer_) != 0; }
  std::vector<torch::optim::OptimizerParamGroup>& param_groups() { return optimizer_->param_groups(); }
  torch::optim::Optimizer& optimizer() { return *optimizer_; }

 private:
  torch::optim::Optimizer* optimizer_;
  std::shared_ptr<UpdateState> state_;
};

/// A scheduler that steps once for each update that was made, whatever the number of ranks; Accelerate's steps once for
/// each rank. It stands still, as theirs, where an optimizer left its step out. Copies are the same scheduler.
class PreparedScheduler {
 public:
  /// @param scheduler  must outlive this object
  PreparedScheduler(torch::optim::LRScheduler& scheduler, std::shared_ptr<UpdateState> state)
      : scheduler_(&scheduler), state_(std::move(state)) {}

  void step() {
    if (state_->accumulation.is_last() && state_->left.empty()) scheduler_->step();
  }
  torch::optim::LRScheduler& scheduler() { return *scheduler_; }

 private:
  torch::optim::LRScheduler* scheduler_;
  std::shared_ptr<UpdateState> state_;
};

}  // namespace lockstep

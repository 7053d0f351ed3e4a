#pragma once

#include <torch/optim/optimizer.h>
#include <torch/optim/schedulers/lr_scheduler.h>

#include <memory>
#include <utility>
#include <vector>

namespace lockstep {

struct UpdateState;

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
  bool step_was_skipped() const;
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

  void step();
  torch::optim::LRScheduler& scheduler() { return *scheduler_; }

 private:
  torch::optim::LRScheduler* scheduler_;
  std::shared_ptr<UpdateState> state_;
};

}  // namespace lockstep

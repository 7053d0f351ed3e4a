#pragma once

#include <torch/optim/optimizer.h>
#include <torch/optim/schedulers/lr_scheduler.h>

#include <memory>
#include <utility>
#include <vector>

namespace lockstep {

struct UpdateState;

/// An optimizer whose `step` does nothing until a window of gradient accumulation is full. `zero_grad` keeps the
/// gradients of an incomplete window, anywhere in the loop; Accelerate's discards them if it is called before backward.
/// Under fp16 a step is skipped if its gradients hold an infinity or NaN. Copies refer to one optimizer.
class PreparedOptimizer {
 public:
  /// @param optimizer  must outlive this object
  PreparedOptimizer(torch::optim::Optimizer& optimizer, std::shared_ptr<UpdateState> state)
      : optimizer_(&optimizer), state_(std::move(state)) {}

  void step();
  void zero_grad();
  /// Whether the last step was skipped.
  bool step_was_skipped() const;
  std::vector<torch::optim::OptimizerParamGroup>& param_groups() { return optimizer_->param_groups(); }
  torch::optim::Optimizer& optimizer() { return *optimizer_; }

 private:
  torch::optim::Optimizer* optimizer_;
  std::shared_ptr<UpdateState> state_;
};

/// A scheduler that steps once for each update, for any number of ranks; Accelerate's steps once for each rank. Like
/// Accelerate's, it does not step if an optimizer skipped its step. Copies refer to one scheduler.
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

#pragma once

#include <memory>
#include <string>

#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/optim/lr_scheduler.h"
#include "lockstep/train/loop/training_plan.h"
#include "lockstep/train/trainable_model.h"

namespace lockstep {

/// The optimizer that `args.optim` names, over all parameters that require a gradient: parameters with weight decay in
/// the first group, all others in the second. An empty group is left out.
/// @throws UsageError  if no parameter requires a gradient
std::unique_ptr<FlatOptimizer> make_training_optimizer(const TrainingArguments& args, TrainableModel& model);

/// The schedule of the learning rate: one step for each update or, for reduce_lr_on_plateau, for each evaluation.
class TrainingSchedule {
 public:
  /// @param optimizer  must outlive this object
  /// @throws UsageError  as make_schedule does; and for lr_scheduler_kwargs that the schedule does not have
  TrainingSchedule(const TrainingArguments& args, const TrainingPlan& plan, torch::optim::Optimizer& optimizer);

  /// Call it after each update.
  void step();
  /// Call it after each evaluation. @param metric  the best model's metric
  void step_plateau(double metric);
  /// The rate of the first group, as the next update will use it.
  double learning_rate() const;

  /// `scheduler.json`
  std::string state() const;
  void load_state(const std::string& text, const std::string& where);

 private:
  torch::optim::Optimizer& optimizer_;
  std::unique_ptr<LambdaLR> by_step_;
  std::unique_ptr<ReduceLROnPlateau> by_metric_;
};

}  // namespace lockstep

#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/detail/checkpoint/checkpoint_content.h"
#include "lockstep/optim/grad_scaler.h"
#include "lockstep/train/loop/training_optimizer.h"
#include "lockstep/train/survival/passed_on.h"

namespace lockstep {

/// What changes the weights: the optimizer, the schedule of its learning rate and, for fp16, the scale of the loss.
class TrainingUpdater {
 public:
  /// @param args, model  outlive this object
  /// @throws UsageError  as make_training_optimizer and TrainingSchedule do
  TrainingUpdater(const TrainingArguments& args, const TrainingPlan& plan, TrainableModel& model, bool scales_loss);

  FlatOptimizer& optimizer() { return *optimizer_; }
  /// Gives the optimizer away; this object can then only be destroyed.
  std::unique_ptr<FlatOptimizer> release_optimizer() { return std::move(optimizer_); }
  /// The factor by which the loss of the next backward is multiplied.
  double loss_scale() const { return scaler_ ? scaler_->get_scale() : 1; }

  /// Clips the gradients, updates the weights and clears the gradients.
  /// @param gradient_factor  as GradientEngine::gradient_factor
  /// @return  false if fp16 skipped the update, because its scaled gradients held an infinity or NaN
  bool step(double gradient_factor);
  /// The weights have seen an update whose gradients had this norm, in `step` of a process that is gone.
  void note_step(double norm) {
    learning_rate_ = schedule_->learning_rate();
    norm_ = norm;
  }
  /// Moves the schedule on after an update.
  void step_schedule() { schedule_->step(); }
  /// Moves a schedule on that follows evaluations. @param metric  the best model's metric
  void step_plateau(double metric) { schedule_->step_plateau(metric); }

  double norm() const { return norm_; }                    ///< of the last update's gradients, before clipping
  double learning_rate() const { return learning_rate_; }  ///< of the last update
  /// Whether a norm that is NaN or infinite means that weights may be. With fp16 it means that the update was skipped.
  bool has_suspect_norm() const;

  /// Adds the state to a checkpoint. @param is_rank_0  this rank writes what all ranks have alike
  void save(CheckpointContent& content, bool is_rank_0) const;
  /// Loads optimizer and scale. @throws Error  naming what does not fit
  void load(const Checkpoint& checkpoint);
  /// What another rank needs, beside the optimizer, to continue like this one: schedule, scale, and the last update's
  /// numbers.
  PassedOn::Updater passed_on() const;
  /// Takes that over. The optimizer must have taken over its state and its options before.
  void take_over(const PassedOn::Updater& from, const TrainingPlan& plan);
  /// Loads the schedule, for the number of updates that `plan` has now.
  void load_schedule(const Checkpoint& checkpoint, const TrainingPlan& plan);

 private:
  const TrainingArguments& args_;
  NamedParameters names_;
  std::unique_ptr<FlatOptimizer> optimizer_;
  std::unique_ptr<TrainingSchedule> schedule_;
  std::optional<GradScaler> scaler_;
  double norm_ = 0;
  double learning_rate_ = 0;
};

}  // namespace lockstep

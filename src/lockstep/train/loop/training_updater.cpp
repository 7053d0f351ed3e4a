#include "lockstep/train/loop/training_updater.h"

#include <cmath>
#include <limits>

#include "lockstep/checkpoint/schedule_state.h"
#include "lockstep/parallel/fused/recovery/update_rescue.h"

namespace lockstep {
namespace {

NamedParameters parameter_names(TrainableModel& model) {
  NamedParameters names;
  for (const NamedTensor& parameter : model.tensors().parameters) names.emplace_back(parameter.name, parameter.tensor);
  return names;
}

}  // namespace

TrainingUpdater::TrainingUpdater(const TrainingArguments& args, const TrainingPlan& plan, TrainableModel& model,
                                 bool scales_loss)
    : args_(args),
      names_(parameter_names(model)),
      optimizer_(make_training_optimizer(args, model)),
      schedule_(std::make_unique<TrainingSchedule>(args, plan, *optimizer_)) {
  if (scales_loss) scaler_.emplace();
}

bool TrainingUpdater::step(double gradient_factor) {
  StepOptions options;
  // The norm is measured even without clipping, because it is logged.
  options.max_norm = args_.max_grad_norm > 0 ? args_.max_grad_norm : std::numeric_limits<double>::infinity();
  options.gradient_factor = gradient_factor;
  options.zero_grad = true;
  learning_rate_ = schedule_->learning_rate();
  const StepResult result = scaler_ ? scaler_->step(*optimizer_, options) : optimizer_->step_with(options);
  if (scaler_) scaler_->update();
  norm_ = result.norm;
  return !result.skipped;
}

bool TrainingUpdater::has_suspect_norm() const { return !scaler_ && !std::isfinite(norm_); }

void TrainingUpdater::save(CheckpointContent& content, bool is_rank_0) const {
  if (is_rank_0) content.files[kSchedulerFile] = schedule_->state();
  if (is_rank_0 && scaler_) content.files[kScalerFile] = scaler_json(scaler_->state());
  const UpdateRescue* const rescue = UpdateRescue::of(*optimizer_);
  // Ranks may be lost before the next checkpoint, so no file is any rank's.
  if (rescue != nullptr && rescue->state() != nullptr && optimizer_->is_sharded()) {
    content.optimizer = {rescue->state()->whole(names_), false, optimizer_->group_options()};
    return;
  }
  content.optimizer = {optimizer_->named_state(names_), optimizer_->is_sharded(), optimizer_->group_options()};
}

void TrainingUpdater::load(const Checkpoint& checkpoint) {
  const Checkpoint::OptimizerParts saved = checkpoint.optimizer_parts();
  optimizer_->load_named_state(names_, saved.states);
  optimizer_->load_group_options(saved.groups);
  if (!scaler_ || !checkpoint.has_file(kScalerFile)) return;
  scaler_->load_state(parse_scaler(checkpoint.file(kScalerFile), checkpoint.path() + "/" + kScalerFile));
}

PassedOn::Updater TrainingUpdater::passed_on() const {
  return {schedule_->state(), scaler_ ? scaler_json(scaler_->state()) : "", norm_, learning_rate_};
}

void TrainingUpdater::take_over(const PassedOn::Updater& from, const TrainingPlan& plan) {
  const std::string where = "the state of another rank";
  schedule_ = std::make_unique<TrainingSchedule>(args_, plan, *optimizer_);
  schedule_->load_state(from.schedule, where);
  if (scaler_) scaler_->load_state(parse_scaler(from.scaler, where));
  norm_ = from.norm;
  learning_rate_ = from.learning_rate;
}

void TrainingUpdater::load_schedule(const Checkpoint& checkpoint, const TrainingPlan& plan) {
  schedule_ = std::make_unique<TrainingSchedule>(args_, plan, *optimizer_);
  schedule_->load_state(checkpoint.file(kSchedulerFile), checkpoint.path() + "/" + kSchedulerFile);
}

}  // namespace lockstep

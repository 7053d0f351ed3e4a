// The stages of a training.
#include <torch/types.h>

#include <utility>

#include "lockstep/tensor/tensors_of.h"
#include "lockstep/train/loop/training_session.h"
#include "lockstep/train/survival/survival.h"

namespace lockstep {

void TrainingSession::run_stages() {
  Survival* const survival = context_.survival.get();
  if (survival != nullptr && !is_new_) survival->announce();
  while (stage_ != Stage::Done) {
    try {
      if (must_settle_) settle();
      if (stage_ == Stage::Done) return;
      if (survival != nullptr) begin_stage();
      run_stage();
      others_are_done_ = false;
      stage_ = stage_after(stage_, view());
      if (survival == nullptr) continue;
      survival->advance();
      note_place();
    } catch (...) {
      if (survival == nullptr) throw;
      recover(std::current_exception());
    }
  }
}

StageView TrainingSession::view() const {
  return {stops(), update_.stop_was_asked(), parts_.progress.is_epoch_done() || context_.control.should_epoch_stop,
          epoch_ended_};
}

// What a stage changes before it is certain that it ends.
void TrainingSession::note_place() {
  control_before_ = context_.control;
  epoch_before_ = parts_.progress.epoch();
  micro_batch_before_ = parts_.progress.micro_batch();
}

void TrainingSession::begin_stage() {
  pursue_folder();
  note_place();
  if (stage_ != Stage::Update) return;
  buffers_before_ = copies_of_buffers();
  if (!std::exchange(joiner_waits_, false)) return keep_place();
  engine_.reset();
  checkpoints_.forget_ranks();
  must_settle_ = true;
  context_.survival->admit(context_);
  settle();
  keep_place();
}

// Modules keep the tensors that they have registered: they are looked up once, not in each update.
const std::vector<at::Tensor>& TrainingSession::buffers() {
  if (!buffers_) buffers_ = tensors_of(model_->tensors().buffers());
  return *buffers_;
}

std::vector<at::Tensor> TrainingSession::copies_of_buffers() {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& buffer : buffers()) copies.push_back(buffer.detach().clone());
  return copies;
}

void TrainingSession::restore_buffers() {
  if (stage_ != Stage::Update) return;
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < buffers_before_.size(); ++i) buffers()[i].copy_(buffers_before_[i]);
}

void TrainingSession::run_stage() {
  TrainerControl& control = context_.control;
  switch (stage_) {
    case Stage::Begin:
    case Stage::Finish:
      if (stage_ == Stage::Finish) checkpoints_.wait();
      if (context_.survival && context_.group) context_.group->barrier();
      if (stage_ == Stage::Begin) return;
      if (engine_) engine_->finish();
      if (context_.survival) context_.survival->end_training();
      return;
    case Stage::EpochBegin:
      return begin_epoch();
    case Stage::Update:
      return update_.run(*engine_, [this](const UpdateTotals& totals) {
        if (memory_) keep_outcome(totals);
      });
    case Stage::EpochEnd:
      context_.notify(&TrainerCallback::on_epoch_end);
      return;
    case Stage::Control:
    case Stage::EpochControl: {
      bool waits = context_.survival && context_.survival->someone_waits();
      context_.agree_on_control(&waits);
      joiner_waits_ = joiner_waits_ || waits;
      epoch_ended_ = stage_ == Stage::EpochControl;
      return;
    }
    case Stage::Log:
      if (std::exchange(control.should_log, false)) log_training_loss();
      return;
    case Stage::Evaluate:
      evaluated_ = std::exchange(control.should_evaluate, false) && context_.options.eval_dataset;
      if (evaluated_) evaluate(Evaluate::ToCompare);
      return;
    case Stage::EvaluateControl:
      // If one rank alone stopped early, the others would wait for it.
      if (evaluated_) context_.agree_on_control();
      return;
    case Stage::Save:
      if (std::exchange(control.should_save, false)) save();
      return;
    case Stage::EpochNext:
      return end_epoch();
    case Stage::LoadBest:
      return load_best();
    case Stage::Done:
      return;
  }
}

void TrainingSession::begin_epoch() {
  if (context_.options.set_epoch) context_.options.set_epoch(parts_.progress.epoch());
  context_.control.should_epoch_stop = false;
  context_.notify(&TrainerCallback::on_epoch_begin);
}

void TrainingSession::end_epoch() {
  epoch_ended_ = false;
  parts_.progress.end_epoch();
}

void TrainingSession::log_training_loss() {
  const bool has_nothing = parts_.losses.has_unlogged_nothing();
  const std::optional<double> mean = parts_.losses.take_unlogged_mean();
  if (!mean && !has_nothing) return;
  // Without a label that counts there is no loss, and the step has its line all the same.
  Logs logs{{"grad_norm", parts_.updater.norm()}, {"learning_rate", parts_.updater.learning_rate()}};
  if (mean) logs.insert(logs.begin(), {"loss", *mean});
  context_.log(logs);
  succession_.keep_log(logs);
}

void TrainingSession::load_best() {
  if (!args_.load_best_model_at_end || update_.stop_was_asked()) return;
  std::optional<HiddenGroup> alone;
  if (others_are_done_) alone.emplace(context_);
  parts_.best.load();
}

}  // namespace lockstep

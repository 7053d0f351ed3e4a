// The stages of a training.
#include <utility>

#include "lockstep/train/loop/training_session.h"
#include "lockstep/train/survival/survival.h"

namespace lockstep {

void TrainingSession::run_stages() {
  Survival* const survival = context_.survival.get();
  if (survival != nullptr && !is_new_) survival->announce();
  while (state_.stage() != Stage::Done) {
    try {
      if (must_settle_) settle();
      if (state_.stage() == Stage::Done) return;
      if (survival != nullptr) begin_stage();
      run_stage();
      others_are_done_ = false;
      state_.end_stage();
      if (survival == nullptr) continue;
      survival->advance();
      state_.note_place();
    } catch (...) {
      if (survival == nullptr) throw;
      recover(std::current_exception());
    }
  }
}

void TrainingSession::begin_stage() {
  first_.pursue_folder(state_.use_of_folder());
  state_.note_place();
  if (state_.stage() != Stage::Update) return;
  state_.note_buffers();
  if (!std::exchange(state_.notes().joiner_waits, false)) return memory_->keep_place();
  engine_.reset();
  checkpoints_.forget_ranks();
  must_settle_ = true;
  context_.survival->admit(context_);
  settle();
  memory_->keep_place();
}

void TrainingSession::run_stage() {
  TrainerControl& control = context_.control;
  switch (state_.stage()) {
    case Stage::Begin:
    case Stage::Finish:
      if (state_.stage() == Stage::Finish) checkpoints_.wait();
      if (context_.survival && context_.group) context_.group->barrier();
      if (state_.stage() == Stage::Begin) return;
      if (engine_) engine_->finish();
      if (context_.survival) context_.survival->end_training();
      return;
    case Stage::EpochBegin:
      return begin_epoch();
    case Stage::Update:
      return update_.run(*engine_, [this](const UpdateTotals& totals) {
        if (memory_) memory_->keep_outcome(totals);
      });
    case Stage::EpochEnd:
      context_.notify(&TrainerCallback::on_epoch_end);
      return;
    case Stage::Control:
    case Stage::EpochControl: {
      bool waits = context_.survival && context_.survival->someone_waits();
      context_.agree_on_control(&waits);
      state_.notes().joiner_waits = state_.notes().joiner_waits || waits;
      state_.notes().epoch_ended = state_.stage() == Stage::EpochControl;
      return;
    }
    case Stage::Log:
      if (std::exchange(control.should_log, false)) log_training_loss();
      return;
    case Stage::Evaluate:
      state_.notes().evaluated = std::exchange(control.should_evaluate, false) && context_.options.eval_dataset;
      if (state_.notes().evaluated) evaluate(Evaluate::ToCompare);
      return;
    case Stage::EvaluateControl:
      // If one rank alone stopped early, the others would wait for it.
      if (state_.notes().evaluated) context_.agree_on_control();
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
  state_.notes().epoch_ended = false;
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
  first_.keep_log(logs);
}

void TrainingSession::load_best() {
  if (!args_.load_best_model_at_end || update_.stop_was_asked()) return;
  std::optional<HiddenGroup> alone;
  if (others_are_done_) alone.emplace(context_);
  parts_.best.load();
}

}  // namespace lockstep

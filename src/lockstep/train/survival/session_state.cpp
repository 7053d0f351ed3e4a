#include "lockstep/train/survival/session_state.h"

#include <torch/types.h>

#include <utility>

#include "lockstep/elastic/fields.h"
#include "lockstep/tensor/tensors_of.h"
#include "lockstep/train/survival/passed_on.h"

namespace lockstep {

StageView SessionState::view() const {
  return {context_.control.should_training_stop, update_.stop_was_asked(),
          parts_.progress.is_epoch_done() || context_.control.should_epoch_stop, notes_.epoch_ended};
}

std::string SessionState::use_of_folder() const {
  const TrainerControl& control = context_.control;
  if (stage_ == Stage::Evaluate && control.should_evaluate && context_.options.eval_dataset) return "the evaluation";
  if (stage_ == Stage::Save && control.should_save) return "the checkpoint";
  if (stage_ == Stage::EpochEnd) return "the epoch's end";
  return stage_ == Stage::Finish ? "the training's end" : "";
}

void SessionState::note_place() {
  control_before_ = context_.control;
  epoch_before_ = parts_.progress.epoch();
  micro_batch_before_ = parts_.progress.micro_batch();
}

void SessionState::return_to_place() {
  if (context_.options.set_epoch) context_.options.set_epoch(epoch_before_);
  move_loaders();
}

void SessionState::move_loaders(std::int64_t further) {
  parts_.progress.move_to(training_loaders(context_, parts_.plan), epoch_before_, micro_batch_before_ + further);
}

// Modules keep the tensors that they have registered: they are looked up once, not in each update.
const std::vector<at::Tensor>& SessionState::buffers() {
  if (!buffers_) buffers_ = tensors_of(context_.options.model->tensors().buffers());
  return *buffers_;
}

std::vector<at::Tensor> SessionState::copies_of_buffers() {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& buffer : buffers()) copies.push_back(buffer.detach().clone());
  return copies;
}

void SessionState::restore_buffers() {
  if (stage_ != Stage::Update) return;
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < buffers_before_.size(); ++i) buffers()[i].copy_(buffers_before_[i]);
}

std::vector<at::Tensor> SessionState::untrained() const {
  std::vector<at::Tensor> weights;
  for (const NamedTensor& each : context_.options.model->tensors().parameters) {
    if (!each.tensor.requires_grad()) weights.push_back(each.tensor.detach());
  }
  return weights;
}

std::string SessionState::passed_on(const std::string& purpose, bool has_history) {
  const TrainerControl& control = context_.control;
  context_.keep_states_of_callbacks();
  PassedOn all{stage_,
               epoch_before_,
               micro_batch_before_,
               parts_.plan.max_steps,
               {},
               control,
               parts_.updater.passed_on(),
               parts_.losses.unlogged(),
               parts_.losses.all(),
               notes_.first_step,
               update_.samples(),
               checkpoints_.saved_step(),
               update_.stop_signal(),
               notes_.epoch_ended,
               notes_.joiner_waits,
               notes_.evaluated,
               purpose};
  // Written in place, because a copy would take longer.
  std::vector<LogEntry> history;
  if (!has_history) std::swap(history, context_.state.log_history);
  std::swap(all.state, context_.state);
  FieldWriter fields;
  fields(all);
  std::swap(all.state, context_.state);
  if (!has_history) std::swap(history, context_.state.log_history);
  return fields.bytes();
}

std::string SessionState::take_over(const std::string& text) {
  PassedOn all;
  FieldReader fields(text, "the state of another rank");
  fields(all);
  fields.end();
  stage_ = all.stage;
  epoch_before_ = all.epoch;
  micro_batch_before_ = all.micro_batch;
  set_max_steps(context_.args(), all.max_steps, parts_.plan);
  all.state.is_world_process_zero = context_.state.is_world_process_zero;
  all.state.is_local_process_zero = context_.state.is_local_process_zero;
  context_.state = std::move(all.state);
  context_.control = all.control;
  parts_.updater.take_over(all.updater, parts_.plan);
  parts_.losses.set_unlogged(all.unlogged);
  parts_.losses.set_all(all.losses);
  notes_.first_step = all.first_step;
  update_.set_samples(all.samples);
  checkpoints_.set_saved_step(all.saved_step);
  update_.set_stop_signal(all.stop_signal);
  notes_.epoch_ended = all.epoch_ended;
  notes_.joiner_waits = all.joiner_waits;
  notes_.evaluated = all.evaluated;
  context_.load_callback_states();
  return all.purpose;
}

}  // namespace lockstep

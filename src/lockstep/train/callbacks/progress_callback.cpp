#include "lockstep/train/progress_callback.h"

#include <utility>

#include "lockstep/seeing/progress_bar.h"
#include "lockstep/train/log_text.h"

namespace lockstep {

ProgressCallback::ProgressCallback(PrintLine print, ProgressBarOptions bars)
    : print_(std::move(print)), bars_(std::move(bars)) {}

ProgressCallback::~ProgressCallback() = default;

void ProgressCallback::on_train_begin(TrainerEvent& event) {
  if (!event.state.is_world_process_zero) return;
  ProgressBarOptions options = bars_;
  options.total = event.state.max_steps;
  options.done = event.state.global_step;
  training_ = std::make_unique<ProgressBar>(options);
}

void ProgressCallback::on_step_end(TrainerEvent& event) {
  if (training_) training_->set_done(event.state.global_step);
}

void ProgressCallback::on_prediction_step(TrainerEvent& event) {
  if (!event.state.is_world_process_zero) return;
  if (!evaluation_) {
    ProgressBarOptions options = bars_;
    options.total = event.micro_steps;
    options.leave = training_ == nullptr;
    options.prefix = "Evaluating: ";
    evaluation_ = std::make_unique<ProgressBar>(options);
  }
  evaluation_->set_done(event.micro_step);
}

void ProgressCallback::on_evaluate(TrainerEvent&) { evaluation_.reset(); }

void ProgressCallback::on_predict(TrainerEvent&) { evaluation_.reset(); }

void ProgressCallback::on_log(TrainerEvent& event) {
  if (!event.state.is_world_process_zero || event.logs == nullptr || !print_) return;
  evaluation_.reset();
  const auto print = [&] { print_(log_line_text(*event.logs)); };
  training_ ? training_->write_above(print) : print();
}

void ProgressCallback::on_train_end(TrainerEvent&) {
  evaluation_.reset();
  training_.reset();
}

}  // namespace lockstep

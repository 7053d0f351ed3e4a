#include "lockstep/train/callbacks/default_flow.h"

namespace lockstep {

void DefaultFlowCallback::on_step_end(TrainerEvent& event) {
  const TrainingArguments& args = event.args;
  const std::int64_t step = event.state.global_step;
  TrainerControl& control = event.control;
  if (step == 1 && args.logging_first_step) control.should_log = true;
  if (args.logging_strategy == "steps" && step % plan_.logging_steps == 0) control.should_log = true;
  if (args.eval_strategy == "steps" && step % plan_.eval_steps == 0 && static_cast<double>(step) >= args.eval_delay) {
    control.should_evaluate = true;
  }
  if (args.save_strategy == "steps" && step % plan_.save_steps == 0) control.should_save = true;
  if (step >= plan_.max_steps) {
    control.should_training_stop = true;
    if (args.save_strategy == "steps") control.should_save = true;
  }
}

void DefaultFlowCallback::on_epoch_end(TrainerEvent& event) {
  if (event.args.logging_strategy == "epoch") event.control.should_log = true;
  if (event.args.eval_strategy == "epoch" && event.state.epoch >= event.args.eval_delay) {
    event.control.should_evaluate = true;
  }
  if (event.args.save_strategy == "epoch") event.control.should_save = true;
}

}  // namespace lockstep

#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/train/trainer_callback.h"

namespace lockstep {

/// Calls a callback as a Trainer does in `steps` updates from `first` on, with a log every `log_every` and an
/// evaluation at the end.
inline void play_training(TrainerCallback& callback, const TrainingArguments& args, TrainerState& state,
                          std::int64_t steps, std::int64_t log_every) {
  TrainerControl control;
  const auto event = [&](const Logs* logs = nullptr) {
    TrainerEvent one{args, state, control, nullptr, "", 0, 0};
    one.logs = logs;
    return one;
  };
  const auto call = [&](void (TrainerCallback::*member)(TrainerEvent&), const Logs* logs = nullptr) {
    TrainerEvent one = event(logs);
    (callback.*member)(one);
  };
  call(&TrainerCallback::on_train_begin);
  const std::int64_t last = state.global_step + steps;
  while (state.global_step < last) {
    call(&TrainerCallback::on_step_begin);
    call(&TrainerCallback::on_pre_optimizer_step);
    call(&TrainerCallback::on_optimizer_step);
    ++state.global_step;
    call(&TrainerCallback::on_step_end);
    if (state.global_step % log_every != 0) continue;
    const auto step = static_cast<double>(state.global_step);
    const Logs logs{{"loss", 1 / step}, {"learning_rate", 1e-3 * step}, {"epoch", step / 10}};
    call(&TrainerCallback::on_log, &logs);
  }
  for (std::int64_t batch = 1; batch <= 3; ++batch) {
    TrainerEvent one = event();
    one.micro_step = batch;
    one.micro_steps = 3;
    callback.on_prediction_step(one);
  }
  const Logs metrics{{"eval_loss", 0.25}, {"eval_accuracy", 0.75}, {"epoch", 1.0}};
  call(&TrainerCallback::on_log, &metrics);
  call(&TrainerCallback::on_evaluate, &metrics);
  call(&TrainerCallback::on_train_end);
}

}  // namespace lockstep

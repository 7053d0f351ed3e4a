#pragma once

#include <cstdint>
#include <string>

#include "lockstep/detail/checkpoint/trainer_state.h"
#include "lockstep/train/loop/loss_memory.h"
#include "lockstep/train/survival/training_stage.h"
#include "lockstep/train/trainer_callback.h"

namespace lockstep {

/// What a rank needs to continue a training like another one, beside weights, buffers and the optimizer.
struct PassedOn {
  Stage stage = Stage::Begin;
  std::int64_t epoch = 0;
  std::int64_t micro_batch = 0;
  std::int64_t max_steps = 0;
  TrainerState state;
  TrainerControl control;
  /// Of TrainingUpdater.
  struct Updater {
    std::string schedule;
    std::string scaler;  ///< of fp16; else empty
    double norm = 0;
    double learning_rate = 0;
  };
  Updater updater;
  LossMemory::Sum unlogged;
  LossMemory::Sum losses;
  std::int64_t first_step = 0;
  std::int64_t samples = 0;
  std::int64_t saved_step = 0;
  int stop_signal = 0;
  bool epoch_ended = false;
  bool joiner_waits = false;
  bool evaluated = false;
  std::string purpose;
};

// A member that is added to one of these structs does not compile until it is listed here: bindings name all of them.

template <typename Fields>
void list_fields(Fields& fields, LogEntry& entry) {
  auto& [step, values] = entry;
  fields(step, values);
}

template <typename Fields>
void list_fields(Fields& fields, TrainerState& state) {
  auto& [epoch, global_step, max_steps, num_train_epochs, logging_steps, eval_steps, save_steps, train_batch_size,
         num_input_tokens_seen, total_flos, log_history, best_metric, best_global_step, best_model_checkpoint,
         is_local_process_zero, is_world_process_zero, stateful_callbacks] = state;
  fields(epoch, global_step, max_steps, num_train_epochs, logging_steps, eval_steps, save_steps, train_batch_size,
         num_input_tokens_seen, total_flos, log_history, best_metric, best_global_step, best_model_checkpoint,
         is_local_process_zero, is_world_process_zero, stateful_callbacks);
}

template <typename Fields>
void list_fields(Fields& fields, TrainerControl& control) {
  auto& [training_stop, epoch_stop, save, evaluate, log] = control;
  fields(training_stop, epoch_stop, save, evaluate, log);
}

template <typename Fields>
void list_fields(Fields& fields, PassedOn::Updater& updater) {
  auto& [schedule, scaler, norm, learning_rate] = updater;
  fields(schedule, scaler, norm, learning_rate);
}

template <typename Fields>
void list_fields(Fields& fields, LossMemory::Sum& sum) {
  auto& [losses, updates] = sum;
  fields(losses, updates);
}

template <typename Fields>
void list_fields(Fields& fields, PassedOn& all) {
  auto& [stage, epoch, micro_batch, max_steps, state, control, updater, unlogged, losses, first_step, samples,
         saved_step, stop_signal, epoch_ended, joiner_waits, evaluated, purpose] = all;
  fields(stage, epoch, micro_batch, max_steps, state, control, updater, unlogged, losses, first_step, samples,
         saved_step, stop_signal, epoch_ended, joiner_waits, evaluated, purpose);
}

}  // namespace lockstep

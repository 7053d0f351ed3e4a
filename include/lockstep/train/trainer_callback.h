#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/detail/checkpoint/trainer_state.h"
#include "lockstep/train/training_arguments.h"

namespace lockstep {

/// The values that are logged at one step, in the order in which they are printed: "loss", "learning_rate",
/// "eval_accuracy"...
using Logs = std::vector<std::pair<std::string, double>>;
/// The value of `name`; nothing if it is not logged.
std::optional<double> find_log(const Logs& logs, const std::string& name);

/// Requests of callbacks to the trainer, which clears each flag after acting on it. A flag that any rank sets counts
/// for all ranks.
struct TrainerControl {
  bool should_training_stop = false;
  bool should_epoch_stop = false;
  bool should_save = false;
  bool should_evaluate = false;
  bool should_log = false;
};

/// The state of a training, as a callback sees it.
struct TrainerEvent {
  const TrainingArguments& args;
  TrainerState& state;
  TrainerControl& control;
  const Logs* logs = nullptr;    ///< on_log: what is logged; on_evaluate, on_predict: the metrics
  std::string folder;            ///< on_save: the checkpoint
  std::int64_t micro_step = 0;   ///< on_prediction_step: batches done
  std::int64_t micro_steps = 0;  ///< on_prediction_step: batches in all on this rank
  /// on_train_begin, on rank 0: model, data, command, machine and versions, as metrics.jsonl has them; else null
  const nlohmann::json* about = nullptr;
};

/// Watches and steers a training. Called on every rank, in the order in which callbacks were added; an exception ends
/// the training. Order of events:
///
///     on_init_end, on_train_begin, then for each epoch on_epoch_begin, for each update on_step_begin, on_substep_end
///     after each micro-batch but the last, on_pre_optimizer_step, on_optimizer_step, on_step_end, then, if the flags
///     say so, on_log, on_evaluate (after on_prediction_step for each batch, and on_log), on_save;
///     on_epoch_end, and again log, evaluate, save; at last on_train_end. `predict` ends with on_predict.
class TrainerCallback {
 public:
  virtual ~TrainerCallback() = default;

  virtual void on_init_end(TrainerEvent&) {}
  virtual void on_train_begin(TrainerEvent&) {}
  virtual void on_train_end(TrainerEvent&) {}
  virtual void on_epoch_begin(TrainerEvent&) {}
  virtual void on_epoch_end(TrainerEvent&) {}
  virtual void on_step_begin(TrainerEvent&) {}
  virtual void on_substep_end(TrainerEvent&) {}
  virtual void on_pre_optimizer_step(TrainerEvent&) {}
  virtual void on_optimizer_step(TrainerEvent&) {}
  virtual void on_step_end(TrainerEvent&) {}
  virtual void on_evaluate(TrainerEvent&) {}
  virtual void on_predict(TrainerEvent&) {}
  virtual void on_save(TrainerEvent&) {}
  virtual void on_log(TrainerEvent&) {}
  virtual void on_prediction_step(TrainerEvent&) {}

  /// The name under which checkpoints keep `state`; empty: nothing is kept.
  virtual std::string name() const { return ""; }
  /// The state that a checkpoint keeps, as the text of a JSON object.
  virtual std::string state() const { return "{}"; }
  /// Restores what `state` returned; called before on_train_begin when a training resumes from a checkpoint.
  virtual void load_state(const std::string&) {}
};

}  // namespace lockstep

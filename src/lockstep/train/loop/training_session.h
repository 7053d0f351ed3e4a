#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lockstep/detail/train/train_output.h"
#include "lockstep/train/loop/session_core.h"
#include "lockstep/train/survival/surviving_ranks.h"

namespace lockstep {

/// One call of Trainer::train: the loop over epochs, updates and micro-batches, and what follows each. Internal.
class TrainingSession {
 public:
  explicit TrainingSession(TrainerContext& context);
  ~TrainingSession();
  TrainingSession(const TrainingSession&) = delete;
  TrainingSession& operator=(const TrainingSession&) = delete;
  TrainOutput run();

 private:
  // No checkpoint contains the model before the first update, so that evaluation is not compared with the best model.
  enum class Evaluate { ToLook, ToCompare };

  void reset_state();
  std::optional<std::string> share_before_resuming();
  TrainOutput end_at_once();

  void run_stages();
  void begin_stage();
  void run_stage();
  void begin_epoch();
  void end_epoch();
  void log_training_loss();
  void load_best();

  void evaluate(Evaluate purpose);
  void save();
  TrainOutput finish(double runtime_s);

  TrainerContext& context_;
  const TrainingArguments& args_;
  SessionCore core_;
  std::unique_ptr<SurvivingRanks> ranks_;  // null unless lost ranks are survived
};

}  // namespace lockstep

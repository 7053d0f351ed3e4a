#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "lockstep/train/checks/number_check.h"
#include "lockstep/train/loop/gradient_engine.h"
#include "lockstep/train/loop/training_checkpoints.h"
#include "lockstep/train/loop/training_parts.h"
#include "lockstep/train/shards/update_totals.h"
#include "lockstep/train/stop_signal.h"
#include "lockstep/train/train_output.h"

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
  void print_advice(const std::string& fused_update);
  TrainOutput end_at_once();

  void run_epoch();
  void run_update();
  PartOfUpdate run_micro_batches();
  PartOfUpdate run_shards();
  void run_micro_batch(const GradientEngine::MicroBatch& how, UpdateTotals& totals);
  UpdateTotals run_batch(const Batch& batch, const GradientEngine::MicroBatch& how);
  UpdateTotals reduce(PartOfUpdate own);
  void require_sound_weights(const UpdateTotals& totals);
  void note_loss(const UpdateTotals& totals);

  void log_evaluate_save();
  void log_training_loss();
  void evaluate(Evaluate purpose);
  TrainOutput finish(double runtime_s);
  bool stops() const { return context_.control.should_training_stop; }
  bool stop_was_asked() const { return stop_signal_ != 0; }

  TrainerContext& context_;
  const TrainingArguments& args_;
  std::shared_ptr<TrainableModel> model_;
  c10::Device device_;
  ParallelChoice choice_;
  TrainingParts parts_;
  TrainingCheckpoints checkpoints_;
  NumberCheck numbers_;
  std::unique_ptr<GradientEngine> engine_;
  std::unique_ptr<StopSignal> signal_;  // null unless enable_jit_checkpoint is set

  std::int64_t first_step_ = 0;  // first step of this session
  std::int64_t samples_of_session_ = 0;
  double waited_s_ = 0;       // for other ranks
  int stop_signal_ = 0;       // SIGTERM or SIGINT, once the ranks have agreed to stop
  bool epoch_ended_ = false;  // on_epoch_end of this epoch was called
};

}  // namespace lockstep

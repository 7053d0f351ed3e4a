#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/checkpoint/checkpoint_writer.h"
#include "lockstep/checkpoint/generators.h"
#include "lockstep/data/data_loader.h"
#include "lockstep/optim/grad_scaler.h"
#include "lockstep/train/loop/gradient_engine.h"
#include "lockstep/train/loop/trainer_context.h"
#include "lockstep/train/loop/training_optimizer.h"
#include "lockstep/train/loop/training_plan.h"
#include "lockstep/train/stop_signal.h"
#include "lockstep/train/train_output.h"

namespace lockstep {

/// One call of Trainer::train: the state that exists only while it runs. Internal.
class TrainingSession {
 public:
  explicit TrainingSession(TrainerContext& context);
  ~TrainingSession();
  TrainingSession(const TrainingSession&) = delete;
  TrainingSession& operator=(const TrainingSession&) = delete;
  TrainOutput run();

 private:
  // Loss and count of one update, over all ranks.
  struct UpdateTotals {
    double loss = 0;
    std::int64_t count = 0;
    std::int64_t samples = 0;
    double operations = 0;  // as total_flos counts them
  };

  void make_state();
  std::shared_ptr<Sampler> make_sampler() const;

  void run_epoch();
  void run_update(DataLoader::Iterator& batches, std::int64_t window);
  UpdateTotals accumulate(DataLoader::Iterator& batches, std::int64_t window);
  std::optional<Batch> next_batch(DataLoader::Iterator& batches);
  void reduce(UpdateTotals& totals);
  void note_loss(const UpdateTotals& totals);
  void report_no_number(double own_loss);
  bool step_optimizer(const UpdateTotals& totals);
  void require_sound_weights(const UpdateTotals& totals);
  bool stops() const { return context_.control.should_training_stop; }

  // training_session_events.cpp: what follows an update or an epoch
  void log_evaluate_save();
  void log_training_loss();
  // No checkpoint contains the model before the first update, so that evaluation is not compared with the best model.
  enum class Evaluate { ToLook, ToCompare };
  void evaluate(Evaluate purpose);
  void keep_best(const Logs& metrics);
  TrainOutput finish(double runtime_s);
  void find_best_model(const std::string& beside);
  void load_best_model();

  // training_session_checkpoint.cpp
  void resume();
  void take_up(const class Checkpoint& checkpoint);
  /// Updates of this run, including those before the checkpoint.
  std::int64_t steps_in_all(const class Checkpoint& checkpoint, const TrainerState& saved, bool is_remapped) const;
  std::vector<std::string> changes_since(const class Checkpoint& checkpoint) const;
  TrainOutput end_at_once();
  void save();
  NamedTensors loss_memory() const;

  TrainerContext& context_;
  const TrainingArguments& args_;
  std::shared_ptr<TrainableModel> model_;
  c10::Device device_;
  ParallelChoice choice_;
  TrainingPlan plan_;
  NamedParameters names_;

  std::unique_ptr<FlatOptimizer> optimizer_;
  std::unique_ptr<TrainingSchedule> schedule_;
  std::optional<GradScaler> scaler_;  // for fp16
  std::unique_ptr<GradientEngine> engine_;
  std::shared_ptr<Sampler> sampler_;
  std::unique_ptr<DataLoader> loader_;
  std::unique_ptr<CheckpointWriter> writer_;
  Generators generators_;
  std::unique_ptr<StopSignal> signal_;
  GradientEngine::Loss loss_;

  std::int64_t epoch_ = 0;
  std::int64_t micro_batch_ = 0;  // done in this epoch
  std::int64_t position_ = 0;     // samples that this rank took in this epoch
  bool more_ = false;             // the iterator points to a batch that was used
  std::int64_t first_step_ = 0;   // first step of this session
  double loss_since_log_ = 0;
  std::int64_t steps_since_log_ = 0;
  double loss_of_session_ = 0;
  double last_norm_ = 0;
  double last_learning_rate_ = 0;
  std::int64_t samples_of_session_ = 0;
  bool stop_was_asked_ = false;
  bool last_was_number_ = true;
  std::int64_t losses_of_session_ = 0;
  std::int64_t saved_step_ = -1;
  std::string taken_up_;              // the checkpoint that this session resumes from
  std::vector<std::string> changes_;  // of the arguments, since the checkpoint was saved
  bool epoch_ended_ = false;          // on_epoch_end of this epoch was called
};

}  // namespace lockstep

#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "lockstep/train/checks/number_check.h"
#include "lockstep/train/loop/gradient_engine.h"
#include "lockstep/train/loop/training_checkpoints.h"
#include "lockstep/train/loop/training_parts.h"
#include "lockstep/train/slices/update_totals.h"
#include "lockstep/train/stop_signal.h"

namespace lockstep {

/// The updates of one training: gradients, their sums over the ranks, the optimizer's step, and what follows it.
class TrainingUpdate {
 public:
  /// @param context, parts, checkpoints  outlive this object
  TrainingUpdate(TrainerContext& context, TrainingParts& parts, TrainingCheckpoints& checkpoints);

  /// Does one. @param before_step  is called with the sums of all ranks, before the weights change
  void run(GradientEngine& engine, const std::function<void(const UpdateTotals&)>& before_step);
  /// What follows the optimizer's step. @param is_updated  fp16 did not skip it
  void end(const UpdateTotals& totals, bool is_updated);

  /// The signal that arrived on some rank, once the ranks have agreed to stop; 0: none.
  int stop_signal() const { return stop_signal_; }
  void set_stop_signal(int signal) { stop_signal_ = signal; }
  bool stop_was_asked() const { return stop_signal_ != 0; }
  /// For the launcher: the training ends because of the signal.
  void record_asked_stop() const;
  /// Samples that all ranks have seen in this session.
  std::int64_t samples() const { return samples_; }
  void set_samples(std::int64_t samples) { samples_ = samples; }
  /// Seconds for which this rank has waited for others.
  double waited_s() const { return waited_s_; }

 private:
  PartOfUpdate run_micro_batches(GradientEngine& engine);
  PartOfUpdate run_slices(GradientEngine& engine);
  void run_micro_batch(GradientEngine& engine, const GradientEngine::MicroBatch& how, UpdateTotals& totals);
  UpdateTotals run_batch(GradientEngine& engine, const Batch& batch, const GradientEngine::MicroBatch& how);
  UpdateTotals reduce(PartOfUpdate own);
  void require_sound_weights(const UpdateTotals& totals);
  void note_loss(const UpdateTotals& totals);

  TrainerContext& context_;
  const TrainingArguments& args_;
  TrainingParts& parts_;
  TrainingCheckpoints& checkpoints_;
  c10::Device device_;
  NumberCheck numbers_;
  std::unique_ptr<StopSignal> signal_;  // null unless enable_jit_checkpoint is set
  int stop_signal_ = 0;
  std::int64_t samples_ = 0;
  double waited_s_ = 0;
};

}  // namespace lockstep

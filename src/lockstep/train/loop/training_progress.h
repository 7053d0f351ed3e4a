#pragma once

#include <cstdint>
#include <optional>

#include "lockstep/data/data_loader.h"
#include "lockstep/train/loop/training_plan.h"

namespace lockstep {

/// This rank's place in the training: the epoch, the micro-batch in it, and the samples that it has taken. It reads the
/// batches, and the loader's state is the only record of epoch and position.
///
/// All ranks are at the same micro-batch. Shares differ by at most one sample and lower ranks have more, so a rank may
/// have no batch left while rank 0 has one more; it then takes part in that micro-batch without samples.
class TrainingProgress {
 public:
  /// @param plan  outlives this object
  TrainingProgress(DataLoader loader, const TrainingPlan& plan) : loader_(std::move(loader)), plan_(plan) {}

  std::int64_t epoch() const { return loader_.state().epoch; }
  std::int64_t micro_batch() const { return micro_batch_; }  ///< number of those that are done in this epoch
  bool is_epoch_done() const { return micro_batch_ >= plan_.micro_batches_per_epoch; }
  /// Number of micro-batches in the next update: the epoch's last one may have fewer.
  std::int64_t next_window() const;
  /// Epochs done, with the part of this one: as `TrainerState::epoch`.
  double epochs() const;

  /// Moves to the next micro-batch and returns this rank's part of it; nothing if this rank has no batch left.
  std::optional<Batch> next_micro_batch();
  /// Moves to the start of the next epoch, from anywhere in this one.
  void end_epoch();

  /// For a checkpoint: as DataLoader::state().
  SamplerState state() const { return loader_.state(); }
  /// Continues at a saved place.
  /// @param own       this rank's state
  /// @param of_rank_0  the state of rank 0 in the same checkpoint, whose share is the largest: a rank that had no batch
  /// left cannot know from its own position whether the epoch's last micro-batch is done
  /// @throws Error  as DataLoader::load_state
  void load_state(const SamplerState& own, const SamplerState& of_rank_0);

 private:
  DataLoader loader_;
  const TrainingPlan& plan_;
  std::optional<DataLoader::Iterator> batches_;  // of this epoch; nothing before its first micro-batch
  std::int64_t micro_batch_ = 0;
};

}  // namespace lockstep

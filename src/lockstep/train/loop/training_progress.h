#pragma once

#include <cstdint>
#include <optional>
#include <vector>

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
  /// @param loaders  one; with slices: one for each slice of this rank, in order
  /// @param plan     outlives this object
  TrainingProgress(std::vector<DataLoader> loaders, const TrainingPlan& plan);

  std::int64_t epoch() const { return loaders_.front().state().epoch; }
  std::int64_t micro_batch() const { return micro_batch_; }  ///< number of those that are done in this epoch
  bool is_epoch_done() const { return micro_batch_ >= plan_.micro_batches_per_epoch; }
  /// Number of micro-batches in the next update: the epoch's last one may have fewer.
  std::int64_t next_window() const;
  /// Epochs done, with the part of this one: as `TrainerState::epoch`.
  double epochs() const;

  /// Moves to the next micro-batch and returns this rank's part of it; nothing if this rank has no batch left.
  /// @param loader  with slices: 0 to the last in turn, each for one slice's part of the same micro-batch
  std::optional<Batch> next_micro_batch(std::size_t loader = 0);
  /// Moves to the start of the next epoch, from anywhere in this one.
  void end_epoch();

  /// Continues in micro-batch `micro_batch` of an epoch, of which nothing is taken yet, with other loaders: with
  /// slices, those that this rank has now.
  void move_to(std::vector<DataLoader> loaders, std::int64_t epoch, std::int64_t micro_batch);

  /// For a checkpoint: as DataLoader::state(), of the first loader.
  SamplerState state() const { return loaders_.front().state(); }
  /// Continues at a saved place.
  /// @param own       this rank's state; with slices: of the first slice of all
  /// @param of_rank_0  the state of rank 0 in the same checkpoint, whose share is the largest: a rank that had no batch
  /// left cannot know from its own position whether the epoch's last micro-batch is done
  /// @throws Error  as DataLoader::load_state
  void load_state(const SamplerState& own, const SamplerState& of_rank_0);

 private:
  std::vector<DataLoader> loaders_;
  const TrainingPlan& plan_;
  // By loader, of this epoch; nothing before its first micro-batch.
  std::vector<std::optional<DataLoader::Iterator>> batches_;
  std::int64_t micro_batch_ = 0;
};

}  // namespace lockstep

#pragma once

#include <cstdint>

#include "lockstep/detail/checkpoint/trainer_state.h"
#include "lockstep/train/training_arguments.h"

namespace lockstep {

/// The numbers of batches and updates that follow from the arguments, the data and the ranks.
///
/// An update's global batch has the same samples for all numbers of ranks, replicas and accumulated micro-batches with
/// the same product, even in short tails: samples are dealt round-robin over the ranks, and none is repeated.
struct TrainingPlan {
  std::int64_t samples = 0;     ///< in the training set
  std::int64_t world_size = 1;  ///< ranks, or slices if there are some
  std::int64_t replicas = 1;    ///< copies of the model in each rank (DataParallel)
  bool has_slices = false;      ///< slices take the ranks' places

  std::int64_t rank_batch_size = 0;          ///< samples of one rank in a micro-batch, over its replicas
  std::int64_t accumulation = 1;             ///< micro-batches in an update
  std::int64_t global_batch_size = 0;        ///< samples in an update
  std::int64_t micro_batches_per_epoch = 0;  ///< on each rank
  std::int64_t updates_per_epoch = 0;
  std::int64_t last_micro_batches = 0;  ///< in the epoch's last update
  std::int64_t last_update_samples = 0;
  std::int64_t dropped_samples = 0;  ///< in each epoch, with dataloader_drop_last

  std::int64_t max_steps = 0;   ///< updates in all; the four below may be given as a fraction of it
  std::int64_t num_epochs = 0;  ///< rounded up
  std::int64_t warmup_steps = 0;
  std::int64_t logging_steps = 0;
  std::int64_t eval_steps = 0;
  std::int64_t save_steps = 0;
};

/// @throws UsageError  if there is nothing to train on: no samples, or none left by drop_last
TrainingPlan make_training_plan(const TrainingArguments& args, std::int64_t samples, std::int64_t world_size,
                                std::int64_t replicas);

/// Number of updates in this many micro-batches of a rank; the last update takes the remainder.
std::int64_t updates_of(std::int64_t micro_batches, const TrainingPlan& plan);

/// Number of updates in this many epochs of the plan, rounded up.
/// @throws UsageError  if the number is too large
std::int64_t updates_in(double epochs, const TrainingPlan& plan);

/// Sets the number of updates, and the numbers that are given as a fraction of it.
void set_max_steps(const TrainingArguments& args, std::int64_t max_steps, TrainingPlan& plan);

/// Sets the numbers of `state` that a plan decides.
void set_planned_numbers(const TrainingPlan& plan, TrainerState& state);

}  // namespace lockstep

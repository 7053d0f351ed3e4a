#pragma once

#include <cstdint>

#include "lockstep/train/training_arguments.h"

namespace lockstep {

/// What the data and the ranks make of the arguments: how many batches and updates there are.
///
/// An update's global batch is the same samples for any number of ranks, replicas and accumulated micro-batches with
/// the same product, short tails included: samples are dealt round-robin over the ranks, and none comes twice.
struct TrainingPlan {
  std::int64_t samples = 0;     ///< of the training set
  std::int64_t world_size = 1;  ///< ranks
  std::int64_t replicas = 1;    ///< of the model in each rank (DataParallel)

  std::int64_t rank_batch_size = 0;          ///< samples of one rank in a micro-batch, over its replicas
  std::int64_t accumulation = 1;             ///< micro-batches of an update
  std::int64_t global_batch_size = 0;        ///< samples of an update
  std::int64_t micro_batches_per_epoch = 0;  ///< of each rank
  std::int64_t updates_per_epoch = 0;
  std::int64_t last_micro_batches = 0;  ///< of the epoch's last update
  std::int64_t last_update_samples = 0;
  std::int64_t dropped_samples = 0;  ///< in each epoch, with dataloader_drop_last

  std::int64_t max_steps = 0;   ///< updates in all; the four below may be given as a part of them
  std::int64_t num_epochs = 0;  ///< rounded up
  std::int64_t warmup_steps = 0;
  std::int64_t logging_steps = 0;
  std::int64_t eval_steps = 0;
  std::int64_t save_steps = 0;
};

/// @throws UsageError  if there is nothing to train on: no samples, or drop_last leaves none
TrainingPlan make_training_plan(const TrainingArguments& args, std::int64_t samples, std::int64_t world_size,
                                std::int64_t replicas);

/// Updates that so many micro-batches of a rank make, the last of them from what is left.
std::int64_t updates_of(std::int64_t micro_batches, const TrainingPlan& plan);

/// Updates in so many epochs of this plan, rounded up.
/// @throws UsageError  if no number can hold them
std::int64_t updates_in(double epochs, const TrainingPlan& plan);

/// Makes it a training of so many updates, with what is given as a part of them.
void set_max_steps(const TrainingArguments& args, std::int64_t max_steps, TrainingPlan& plan);

}  // namespace lockstep

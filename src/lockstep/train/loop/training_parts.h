#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/train/checks/training_data.h"
#include "lockstep/train/loop/best_model.h"
#include "lockstep/train/loop/loss_memory.h"
#include "lockstep/train/loop/training_plan.h"
#include "lockstep/train/loop/training_progress.h"
#include "lockstep/train/loop/training_updater.h"
#include "lockstep/train/trainer_context.h"

namespace lockstep {

/// The parts of one training that its loop moves on, and its checkpoints save. They refer to each other, so they stay
/// where they are.
struct TrainingParts {
  /// @param replicas  copies of the model in this process
  /// @throws UsageError  if the arguments do not fit the data or the model
  TrainingParts(TrainerContext& context, std::int64_t replicas);
  TrainingParts(const TrainingParts&) = delete;
  TrainingParts& operator=(const TrainingParts&) = delete;

  TrainingPlan plan;
  TrainingUpdater updater;
  TrainingProgress progress;
  LossMemory losses;
  BestModel best;
  TrainingData data;
};

/// The loaders of the training samples that this rank has: one or, with slices, one for each of its slices.
std::vector<DataLoader> training_loaders(const TrainerContext& context, const TrainingPlan& plan);

}  // namespace lockstep

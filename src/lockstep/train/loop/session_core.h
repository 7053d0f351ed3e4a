#pragma once

#include "lockstep/train/folder/first_rank.h"
#include "lockstep/train/loop/session_engine.h"
#include "lockstep/train/loop/training_checkpoints.h"
#include "lockstep/train/loop/training_parts.h"
#include "lockstep/train/loop/training_update.h"
#include "lockstep/train/survival/session_state.h"

namespace lockstep {

/// What one call of Trainer::train consists of, whether lost ranks are survived or not. The parts refer to each other,
/// so they stay where they are.
struct SessionCore {
  /// @param of_trainer  outlives this object
  explicit SessionCore(TrainerContext& of_trainer);
  SessionCore(const SessionCore&) = delete;
  SessionCore& operator=(const SessionCore&) = delete;

  TrainerContext& context;
  ParallelChoice choice;
  TrainingParts parts;
  TrainingCheckpoints checkpoints;
  TrainingUpdate update;
  SessionState state;
  FirstRank first;
  SessionEngine engine;
};

}  // namespace lockstep

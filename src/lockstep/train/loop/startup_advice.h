#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/train/loop/gradient_engine.h"
#include "lockstep/train/loop/training_plan.h"
#include "lockstep/train/trainable_model.h"
#include "lockstep/train/trainer_context.h"

namespace lockstep {

/// What a training prints before it starts.
struct StartupAdvice {
  std::vector<std::string> facts;     ///< arithmetic of batches and steps, data, threads, engine
  std::vector<std::string> warnings;  ///< what may surprise users
  /// One block, one line for each entry.
  std::string text() const;
};

std::int64_t trainable_numbers(TrainableModel& model);

/// @param parameters  number of trainable numbers in the model
/// @param has_eval    whether there is a dataset for evaluation
StartupAdvice startup_advice(const TrainingArguments& args, const TrainingPlan& plan, const ParallelChoice& choice,
                             std::int64_t parameters, bool has_eval);

/// What the first rank prints, with facts and warnings of the program and of the output folder.
/// @param fused  how the update is fused; empty: it is not. @param changes  since the checkpoint that is continued
std::string startup_text(const TrainerContext& context, const TrainingPlan& plan, ParallelChoice choice,
                         const std::string& fused, const std::vector<std::string>& changes);

}  // namespace lockstep

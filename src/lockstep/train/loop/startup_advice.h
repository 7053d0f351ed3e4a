#pragma once

#include <string>
#include <vector>

#include "lockstep/train/loop/gradient_engine.h"
#include "lockstep/train/loop/training_plan.h"

namespace lockstep {

/// What a training says before it starts.
struct StartupAdvice {
  std::vector<std::string> facts;     ///< arithmetic of batches and steps, data, threads, engine
  std::vector<std::string> warnings;  ///< what will surprise
  /// One block, a line each.
  std::string text() const;
};

/// @param parameters  trainable numbers of the model
/// @param has_eval    there is a dataset to evaluate on
StartupAdvice startup_advice(const TrainingArguments& args, const TrainingPlan& plan, const ParallelChoice& choice,
                             std::int64_t parameters, bool has_eval);

}  // namespace lockstep

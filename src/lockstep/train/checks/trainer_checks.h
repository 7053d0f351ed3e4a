#pragma once

#include "lockstep/detail/train/trainer_options.h"

namespace lockstep {

/// @throws UsageError  if the arguments are invalid, or something that they need is missing
void check_trainer_options(const TrainerOptions& options);
/// @throws UsageError  if there is no model, or not the one that the arguments need
void check_trainer_model(const TrainerOptions& options);

}  // namespace lockstep

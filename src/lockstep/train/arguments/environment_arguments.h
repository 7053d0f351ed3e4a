#pragma once

#include "lockstep/train/training_arguments.h"

namespace lockstep {

/// Writes into the arguments what variables ask for where the arguments say nothing: ACCELERATE_MIXED_PRECISION, and
/// ACCELERATE_USE_FSDP with FSDP_.... So they are compared between ranks, saved and compared with a checkpoint's as if
/// the arguments had said it.
/// @throws Error  if ACCELERATE_MIXED_PRECISION names no precision, or FSDP's variables ask for what is not supported
void adopt_environment(TrainingArguments& arguments);

}  // namespace lockstep

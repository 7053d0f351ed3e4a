#pragma once

#include "lockstep/train/training_arguments.h"

namespace lockstep {

/// Writes into the arguments what variables ask for where the arguments say nothing: ACCELERATE_MIXED_PRECISION, and
/// ACCELERATE_USE_FSDP with FSDP_.... So they are compared between ranks, saved and compared with a checkpoint's as if
/// the arguments had said it.
/// @throws Error  if ACCELERATE_MIXED_PRECISION is none of the precisions, or what is asked of FSDP is not there
void adopt_environment(TrainingArguments& arguments);

}  // namespace lockstep

#pragma once

#include "lockstep/train/trainer_context.h"

namespace lockstep {

/// Compares the parameters of the ranks' models before an evaluation without a training, in which nothing else has made
/// them equal. Parameters that ranks have in shards are not compared, and buffers neither. Collective.
/// @throws UsageError  on every rank, with the ranks and the first parameter that differs
void require_same_weights(const TrainerContext& context);

}  // namespace lockstep

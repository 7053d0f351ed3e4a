#pragma once

#include "lockstep/train/trainer_context.h"

namespace lockstep {

/// Joins the ranks of this job, and with survive_lost_ranks prepares to lose some. A process that takes a lost rank's
/// place becomes a member only when it trains; until then it is not the first rank.
/// @throws Error  as init_process_group
void join_ranks(TrainerContext& context);

}  // namespace lockstep

#pragma once

#include "lockstep/train/trainer_context.h"

namespace lockstep {

/// Refuses arguments that do not fit the number of ranks in this job, as its launcher says it. Before the ranks meet: a
/// rank that meets others first would be started again, and would refuse them again. A process that joins running ranks
/// does not know their number, and is not asked.
/// @throws UsageError
void check_number_of_ranks(const TrainingArguments& args);

/// Joins the ranks of this job, and with survive_lost_ranks prepares to lose some. A process that takes a lost rank's
/// place becomes a member only when it trains; until then it is not the first rank.
/// @throws Error  as init_process_group
/// @param context  stays where it is
void join_ranks(TrainerContext& context);
/// This process needs the others no more, if it has trained with ranks that survive others.
void leave_ranks(TrainerContext& context) noexcept;

}  // namespace lockstep

#pragma once

#include <string>
#include <vector>

#include "lockstep/detail/checkpoint/trainer_state.h"

namespace lockstep {

/// From so many logged losses on, a training that does not learn says so.
constexpr std::size_t kLeastLossesToJudge = 6;

/// The line at the end of a training whose loss fell by less than a fiftieth from the first third of the logged losses
/// to the last third, or nothing. Losses that are not finite are left out: others name them.
/// @param history        of the whole training, from step 0
/// @param learning_rate  the highest one
std::string flat_loss_line(const std::vector<LogEntry>& history, double learning_rate);

}  // namespace lockstep

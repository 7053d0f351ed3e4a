#pragma once

#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// Warns, on rank 0, that one rank has left out a batch before its backward: nothing shows whether it takes another one
/// instead, or is one step behind the others from now on. No error, because a rank may evaluate alone. Collective over
/// all ranks. @param made  "made 1 forward without a backward": what this rank has done since the last step
/// @param takes_part  by rank
void warn_of_left_out_batches(Communicator& communicator, const std::string& made, const std::vector<bool>& takes_part);

}  // namespace lockstep

#pragma once

#include <torch/optim/optimizer.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// What the ranks have told each other at the end of a step of a loop that survives lost ranks.
struct StepEnd {
  bool waits = false;                  ///< some rank has seen that a process waits
  std::optional<std::string> problem;  ///< the ranks differ, and in what
  std::string fix;
};

/// The exchange at the end of each step, an all_gather. It names itself and the step, so that a rank whose step has
/// left out an exchange, and is here already, does not take another exchange of its size for this one. Collective.
/// @param steps  that this rank has made  @param waits  this rank has seen that a process waits
/// @param optimizers  whose options must be equal: ranks that share weights update their parts by their own
StepEnd meet_at_end(Communicator& ranks, std::int64_t steps, bool waits,
                    const std::vector<torch::optim::Optimizer*>& optimizers);

}  // namespace lockstep

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// A rank that the others waited for.
struct SlowRank {
  int rank = 0;
  double share = 0;  ///< of the training's time, in which the other ranks waited for it, on average
};

/// From this share of the training's time on, a training names its slow rank.
constexpr double kSlowShare = 0.1;

/// In a shorter training ranks wait for each other's start, and a line about it would mislead.
constexpr double kShortestSeconds = 5;

/// The rank that waited least, if the others waited for it during `kSlowShare` of the training or more. All ranks wait
/// for the network alike; only what the others wait longer is a wait for the slow one.
/// @param waited_s  seconds for which each rank waited in exchanges
std::optional<SlowRank> slow_rank_of(const std::vector<double>& waited_s, double training_s);

/// The line about it at the end of a training, or nothing. Collective.
/// @param waited_s  of this rank
std::string slow_rank_line(Communicator& group, double waited_s, double training_s);

}  // namespace lockstep

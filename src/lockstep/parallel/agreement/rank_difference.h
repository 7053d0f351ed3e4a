#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// The first line in which a rank's text differs from rank 0's.
struct RankDifference {
  std::size_t index = 0;  ///< number of the line
  int rank = 0;           ///< the lowest rank that differs
  std::string first;      ///< rank 0's line; "nothing" if it is missing
  std::string other;      ///< that rank's line; "nothing" if it is missing

  /// "rank 0 has ..., rank 2 has ..."
  std::string text() const;
};

/// Compares what the ranks hold, described in lines without line breaks. Needs two small messages if all are equal.
/// Collective.
/// @return  the same on every rank
std::optional<RankDifference> first_difference(Communicator& communicator, const std::vector<std::string>& lines);

}  // namespace lockstep

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// The first line in which a rank's text differs from that of the first rank, which is rank 0 unless it takes no part.
struct RankDifference {
  std::size_t index = 0;  ///< number of the line
  int rank = 0;           ///< the lowest rank that differs
  std::string first;      ///< the first rank's line; "nothing" if it is missing
  std::string other;      ///< that rank's line; "nothing" if it is missing
  int first_rank = 0;     ///< the first rank

  /// "rank 0 has ..., rank 2 has ..."
  std::string text() const;
};

/// Compares what the ranks hold, described in lines without line breaks. Needs two small messages if all are equal.
/// Collective.
/// @return  the same on every rank
std::optional<RankDifference> first_difference(Communicator& communicator, const std::vector<std::string>& lines);

/// The same among some of the ranks, where a difference is known to exist: needs a message for each rank. Collective
/// over all ranks. @param takes_part  by rank; equal on all ranks
std::optional<RankDifference> first_difference_among(Communicator& communicator, const std::vector<std::string>& lines,
                                                     const std::vector<bool>& takes_part);

}  // namespace lockstep

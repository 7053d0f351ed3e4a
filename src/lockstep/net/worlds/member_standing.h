#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

/// How far a member of a world is with the work that all members do.
struct MemberPosition {
  std::int64_t position = 0;  ///< steps of work that it has done; negative: it has no state yet
  bool has_finished = false;  ///< it has left the loop of the others, and can give its state to nobody
};

/// How the members of a world stand to each other, after the world has changed.
struct Standing {
  std::int64_t newest = -1;  ///< the most steps of work that a member has done; negative: no member has a state
  int source = 0;            ///< the lowest rank that has
  bool all_equal = true;
  bool has_finished = false;  ///< that rank has
};

/// @param members  by rank, at least one
Standing standing_of(const std::vector<MemberPosition>& members);

}  // namespace lockstep

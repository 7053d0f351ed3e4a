#include "lockstep/net/worlds/member_standing.h"

namespace lockstep {

Standing standing_of(const std::vector<MemberPosition>& members) {
  Standing standing;
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    standing.all_equal = standing.all_equal && members[rank].position == members.front().position;
    if (members[rank].position <= standing.newest) continue;
    standing.newest = members[rank].position;
    standing.source = static_cast<int>(rank);
    standing.has_finished = members[rank].has_finished;
  }
  return standing;
}

}  // namespace lockstep

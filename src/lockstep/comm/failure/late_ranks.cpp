#include "lockstep/comm/failure/late_ranks.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

std::string last_seen_entering(const std::string& operation) { return "last seen entering " + operation; }

int blamed_rank(const LateRanks& late) {
  const auto found = std::find_if(late.begin(), late.end(), [](const LateRank& rank) { return !rank.waits_itself; });
  return found == late.end() ? -1 : found->rank.in_job;
}

std::string describe(const LateRanks& late, bool over_network) {
  if (late.empty() && over_network) return "all ranks have arrived; the network is slow or interrupted";
  if (late.empty()) return "all ranks have arrived";
  std::string text;
  const std::size_t named = std::min(late.size(), kMostNamedRanks);
  for (std::size_t i = 0; i < named; ++i) {
    text += fmt::format("{}{} {}", i == 0 ? "" : "; ", late[i].rank.name, late[i].lacks);
    if (!late[i].seen.empty()) text += " (" + late[i].seen + ")";
  }
  if (late.size() > named) text += fmt::format("; and {} more", late.size() - named);
  return text;
}

std::string slow_operation_text(const std::string& operation, double waited_s, const std::string& late,
                                const std::string& works) {
  return fmt::format("still waiting in {}, {:.0f} s: {}{}", operation, waited_s, late,
                     works.empty() ? "" : "\n    " + works);
}

}  // namespace lockstep

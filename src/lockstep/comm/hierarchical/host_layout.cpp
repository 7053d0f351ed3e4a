#include "lockstep/comm/hierarchical/host_layout.h"

#include <algorithm>
#include <map>
#include <string>

namespace lockstep {

HostLayout::HostLayout(const Membership& membership) {
  std::map<std::string, int> known;
  for (int rank = 0; rank < membership.world_size; ++rank) {
    const std::string& id = membership.peers[static_cast<std::size_t>(rank)].host_id;
    const auto [found, is_new] = known.emplace(id, host_count());
    if (is_new) hosts.emplace_back();
    auto& ranks = hosts[static_cast<std::size_t>(found->second)];
    host_of_.push_back(found->second);
    place_of_.push_back(static_cast<int>(ranks.size()));
    ranks.push_back(rank);
  }
  host = host_of(membership.rank);
  place = place_of(membership.rank);
  const auto fewer = [](const auto& a, const auto& b) { return a.size() < b.size(); };
  const auto [fewest, most] = std::minmax_element(hosts.begin(), hosts.end(), fewer);
  lanes = static_cast<int>(fewest->size());
  equal = fewest->size() == most->size();
}

std::vector<int> HostLayout::lane(int number) const {
  std::vector<int> ranks;
  for (const auto& on_host : hosts) ranks.push_back(on_host[static_cast<std::size_t>(number)]);
  return ranks;
}

bool spans_hosts_of_several_ranks(const Membership& membership) {
  if (membership.on_one_host()) return false;
  return HostLayout(membership).host_count() < membership.world_size;
}

}  // namespace lockstep

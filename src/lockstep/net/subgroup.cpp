#include "lockstep/net/subgroup.h"

#include <memory>

#include "lockstep/net/store/prefix_store.h"

namespace lockstep {

Membership subgroup(const Membership& all, const std::vector<int>& ranks, const std::string& name) {
  Membership group = all;
  group.group = all.group + "/" + name;
  group.store = std::make_shared<PrefixStore>(all.store, name);
  group.world_size = static_cast<int>(ranks.size());
  group.peers.clear();
  for (const int other : ranks) {
    if (other == all.rank) group.rank = static_cast<int>(group.peers.size());
    group.peers.push_back(all.peers[static_cast<std::size_t>(other)]);
  }
  return group;
}

}  // namespace lockstep

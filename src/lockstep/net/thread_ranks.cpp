#include "lockstep/net/thread_ranks.h"

#include <unistd.h>

#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/net/store/prefix_store.h"

namespace lockstep {

std::vector<Membership> thread_memberships(int world_size, std::chrono::milliseconds timeout,
                                           std::shared_ptr<MemoryStore> store) {
  if (world_size < 1) {
    throw Error("world_size is " + std::to_string(world_size), "ranks as threads on " + host_name(),
                "give a world_size of at least 1");
  }
  if (!store) store = std::make_shared<MemoryStore>();
  Membership membership;
  membership.world_size = world_size;
  membership.timeout = timeout;
  membership.store = std::make_shared<PrefixStore>(std::move(store), membership.group);
  for (int rank = 0; rank < world_size; ++rank) {
    membership.peers.push_back({rank, host_name(), host_id(), ::getpid(), rank});
  }
  std::vector<Membership> all(static_cast<std::size_t>(world_size), membership);
  for (int rank = 0; rank < world_size; ++rank) all[static_cast<std::size_t>(rank)].rank = rank;
  return all;
}

}  // namespace lockstep

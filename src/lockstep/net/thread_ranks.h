#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "lockstep/detail/net/membership.h"
#include "lockstep/net/store/memory_store.h"

namespace lockstep {

/// Memberships of a group whose ranks are threads of this process, by rank.
/// @param timeout  of the group's collectives
/// @param store  the store that the ranks share; null: a new one. `store->mark_lost(rank, cause)` tells the other ranks
/// that a rank's thread ended early
/// @throws Error  if `world_size` is not positive
std::vector<Membership> thread_memberships(int world_size, std::chrono::milliseconds timeout,
                                           std::shared_ptr<MemoryStore> store = nullptr);

}  // namespace lockstep

#pragma once

#include <memory>

#include "lockstep/comm/shm/group.h"
#include "lockstep/comm/shm/memory/memory_sharing.h"
#include "lockstep/detail/net/membership.h"

namespace lockstep::shm {

/// Connects the members on one control block. Collective.
///
/// Every rank reports to rank 0 through the store where it receives memory, with a random token that proves which
/// memory is from rank 0. Rank 0 makes the block and sends it. Returns when every rank has joined and each watches the
/// others.
/// @throws Error  if memory is short, the block cannot be reached, or a member is lost
/// @throws TimeoutError  naming the members that did not arrive
std::unique_ptr<Group> join(const Membership& membership, MemorySharing& sharing,
                            std::function<std::string(const Announcement&)> describe_operation);

}  // namespace lockstep::shm

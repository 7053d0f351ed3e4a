#pragma once

#include <memory>

#include "lockstep/comm/shm/group.h"
#include "lockstep/comm/shm/memory/memory_sharing.h"
#include "lockstep/net/membership.h"

namespace lockstep::shm {

/// Brings the members together on one control block. Collective.
///
/// Every rank tells rank 0 through the store where it receives memory, and a random token that proves to it what comes
/// from rank 0, which makes the block and sends it. Returns when every rank is there and each watches the others.
/// @throws Error         where memory is short, the block cannot be reached, or a member is lost
/// @throws TimeoutError  naming the members that did not come
std::unique_ptr<Group> join(const Membership& membership, MemorySharing& sharing,
                            std::function<std::string(const Announcement&)> describe_operation);

}  // namespace lockstep::shm

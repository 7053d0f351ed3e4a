#pragma once

#include <memory>

#include "lockstep/comm/shm/peers/peer_watch.h"
#include "lockstep/detail/net/membership.h"

namespace lockstep::shm {

/// Watches the store's list of lost ranks, for ranks that are threads of one process.
std::unique_ptr<PeerWatch> watch_store(const Membership& membership);

}  // namespace lockstep::shm

#pragma once

#include <sys/types.h>

#include <memory>
#include <vector>

#include "lockstep/comm/shm/peers/peer_watch.h"

namespace lockstep::shm {

/// Watches the processes of the other ranks by a descriptor (pidfd) each, so that their end is known at once, and a
/// process that gets the same number later is not taken for them.
/// @param pids  by rank; that of `self` is not watched
/// @throws Error  where the kernel has no pidfd (before Linux 5.3), or descriptors run out
std::unique_ptr<PeerWatch> watch_processes(const std::vector<pid_t>& pids, int self);

}  // namespace lockstep::shm

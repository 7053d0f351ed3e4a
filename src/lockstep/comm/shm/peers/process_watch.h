#pragma once

#include <sys/types.h>

#include <memory>
#include <vector>

#include "lockstep/comm/shm/peers/peer_watch.h"

namespace lockstep::shm {

/// Watches each other rank's process by a descriptor (pidfd), so that its end is noticed at once, and a later process
/// with an equal number is not mistaken for it.
/// @param pids  by rank; the entry of `self` is not watched
/// @throws Error  if the kernel has no pidfd (before Linux 5.3), or the process has no descriptors left
std::unique_ptr<PeerWatch> watch_processes(const std::vector<pid_t>& pids, int self);

}  // namespace lockstep::shm

#pragma once

#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/detail/net/membership.h"

namespace lockstep {

/// If the ranks are on several hosts, checks that each host can connect to each other host, before all ranks try and
/// wait. One rank of each host connects to one rank of each other host. Collective.
/// @param listens_at  where this rank listens: "tcp:10.0.0.1:40113"
/// @throws Error  on every rank, naming each pair that cannot connect, with the address and the reason
void check_reachable(const Membership& membership, const std::string& listens_at, Deadline deadline);

}  // namespace lockstep

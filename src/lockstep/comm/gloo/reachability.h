#pragma once

#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/net/membership.h"

namespace lockstep {

/// Where the ranks are on several hosts: sees that each host gets through to each other one's `address`, before Gloo
/// tries, which would only wait. One rank of each host connects to one of each other host. Collective.
/// @param address  numeric, of this rank: what its connections are bound to
/// @throws Error  on every rank, naming each pair that cannot connect, with the address and the reason
void check_reachable(const Membership& membership, const std::string& address, Deadline deadline);

}  // namespace lockstep

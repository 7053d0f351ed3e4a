#pragma once

#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/net/membership.h"

namespace lockstep {

/// If the ranks are on several hosts, checks that each host can connect to each other host's `address`, before Gloo
/// tries, which would only wait. One rank of each host connects to one rank of each other host. Collective.
/// @param address  this rank's numeric address, to which its connections are bound
/// @throws Error  on every rank, naming each pair that cannot connect, with the address and the reason
void check_reachable(const Membership& membership, const std::string& address, Deadline deadline);

}  // namespace lockstep

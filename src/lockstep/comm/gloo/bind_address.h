#pragma once

#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/net/membership.h"

namespace lockstep {

/// The numeric address to which this rank's Gloo connections are bound: the address of the interface named by
/// LOCKSTEP_GLOO_INTERFACE or GLOO_SOCKET_IFNAME. Without one, loopback if all ranks are on one host: Gloo trusts
/// everyone who can connect, so it must not be reachable from outside without need. Between hosts, it is the local end
/// of the route to the master; on the master's host, the local end of the route to a rank on another host. The call is
/// collective in that case.
/// @throws Error  if the interface does not exist or no route is found
std::string gloo_bind_address(const Membership& membership, Deadline deadline);

}  // namespace lockstep

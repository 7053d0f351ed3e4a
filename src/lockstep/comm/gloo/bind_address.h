#pragma once

#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/net/membership.h"

namespace lockstep {

/// The numeric address that this rank's Gloo connections are bound to: that of the interface named by
/// LOCKSTEP_GLOO_INTERFACE or GLOO_SOCKET_IFNAME. Without one, loopback where all ranks are on one host: Gloo trusts
/// everybody who can connect, so it must not be reachable from outside without need. Between hosts the local end of the
/// route to the master, and on the master's host that of the route to a rank elsewhere; collective then.
/// @throws Error  where the interface does not exist or no route is found
std::string gloo_bind_address(const Membership& membership, Deadline deadline);

}  // namespace lockstep

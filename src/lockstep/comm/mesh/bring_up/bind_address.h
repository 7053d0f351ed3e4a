#pragma once

#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/detail/net/membership.h"

namespace lockstep {

/// The numeric address where this rank listens for the others of its group: the address of the interface named by
/// LOCKSTEP_GLOO_INTERFACE or GLOO_SOCKET_IFNAME. Without one, loopback if all ranks are on one host, because no port
/// must be reachable from outside without need. Between hosts, it is the local end of the route to the master; on the
/// master's host, the local end of the route to a rank on another host. The call is collective in that case.
/// @param engine  for the log
/// @throws Error  if the interface does not exist or no route is found
std::string mesh_bind_address(const Membership& membership, const char* engine, Deadline deadline);

/// The network interface with this numeric address; "unknown" if there is none.
std::string interface_of(const std::string& address);

}  // namespace lockstep

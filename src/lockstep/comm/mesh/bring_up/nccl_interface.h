#pragma once

#include "lockstep/base/deadline.h"
#include "lockstep/detail/net/membership.h"

namespace lockstep {

/// Between hosts, sets NCCL_SOCKET_IFNAME of this process to the interface on the route to the other hosts, unless it
/// is set: a host with several networks would else take the first one, which may not reach the others. As
/// mesh_bind_address it follows LOCKSTEP_GLOO_INTERFACE and GLOO_SOCKET_IFNAME, and is collective. Before NCCL's first
/// call.
void name_interface_for_nccl(const Membership& membership, Deadline deadline);

}  // namespace lockstep

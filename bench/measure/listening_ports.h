#pragma once

#include <sys/types.h>

#include <vector>

#include "lockstep/net/sockets/socket_address.h"

namespace lockstep {

/// Where these processes and all that they started listen for TCP connections now, as the kernel lists it.
std::vector<SocketAddress> listening_ports(const std::vector<pid_t>& roots);

}  // namespace lockstep

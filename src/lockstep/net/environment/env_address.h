#pragma once

#include <string>
#include <vector>

#include "lockstep/net/sockets/socket_address.h"

namespace lockstep {

/// The address at which rank 0 serves the store of an "env://" rendezvous, if no launcher serves one:
///   - all ranks on one host (LOCAL_WORLD_SIZE equals `world_size`): a Unix socket in this user's private folder
///   - mpirun started all ranks on this host, and MASTER_ADDR is not set: such a Unix socket too
///   - otherwise MASTER_ADDR:MASTER_PORT; one port higher if torchrun's agent serves its own store there
///     (TORCHELASTIC_USE_AGENT_STORE)
/// @throws Error  naming the variable that is missing or is not a port
SocketAddress address_from_environment(int world_size);

/// A name for a socket file that is equal for equal `parts`, and differs for others.
std::string unique_socket_name(const std::vector<std::string>& parts);
/// Whether `unique_socket_name` may have made this name on this kernel.
bool is_unique_socket_name(const std::string& name);

}  // namespace lockstep

#pragma once

#include <string>
#include <vector>

#include "lockstep/net/sockets/socket_address.h"

namespace lockstep {

/// Where rank 0 serves the store of an "env://" rendezvous that no launcher serves:
///   - all ranks on one host (LOCAL_WORLD_SIZE equals `world_size`): a Unix socket in this user's private folder
///   - the same where mpirun started all ranks on this host and MASTER_ADDR is not set
///   - else MASTER_ADDR:MASTER_PORT; one port higher where torchrun's agent serves its own store there
///     (TORCHELASTIC_USE_AGENT_STORE)
/// @throws Error  naming the variable that is missing or no port
SocketAddress address_from_environment(int world_size);

/// The name of a socket file that is the same for equal `parts`, and for no others.
std::string unique_socket_name(const std::vector<std::string>& parts);
/// Whether `unique_socket_name` may have given this name.
bool is_unique_socket_name(const std::string& name);

}  // namespace lockstep

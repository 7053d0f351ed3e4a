#pragma once

#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/base/files/unique_fd.h"
#include "lockstep/net/sockets/socket_address.h"
#include "lockstep/net/store/handshake.h"

namespace lockstep {

/// A connection to a store, on which both sides have proven that they know the secret.
struct ProvenConnection {
  UniqueFd fd;
  SessionKeys keys;
};

/// Connects to the store at `address`, with new attempts while no process listens there yet.
/// @param where  the caller's name, for errors
/// @throws Error, TimeoutError  as StoreClient's constructor
ProvenConnection connect_to_store(const SocketAddress& address, const std::string& secret, Deadline deadline,
                                  const std::string& where);

}  // namespace lockstep

#pragma once

#include <string>

#include "lockstep/net/sockets/socket_address.h"

namespace lockstep {

/// What somebody on the wire between a member and its store could record.
struct RecordedClient {
  std::string hello;  ///< the member's first message
  std::string all;    ///< all that the member sent
};

/// Lets a member with the right secret join and leave the store through a relay, which records it.
RecordedClient record_client(const SocketAddress& store, const std::string& secret);

}  // namespace lockstep

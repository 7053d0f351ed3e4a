#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "lockstep/net/peers/job_key.h"
#include "lockstep/net/peers/peer_handshake.h"

namespace lockstep::testing {

/// Gives a rank that accepts connections any bytes, in pieces of any size: the first byte is the size of the pieces.
/// Ends the process if they are let in, or if more bytes are wanted than a handshake has. A fuzzer's entry point.
inline void take_peer_bytes(const std::uint8_t* data, std::size_t size) {
  static const std::string key = peer_key(job_key_of("a secret that no input knows"), "default", "an invitation");
  AcceptorHandshake acceptor(key, 1);
  if (size == 0) return;
  const std::size_t piece = std::max<std::size_t>(1, data[0]);
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  while (!rest.empty()) {
    const std::size_t wanted = acceptor.wanted_bytes();
    if (wanted == 0 || wanted > AcceptorHandshake::kLongestMessage) std::abort();
    const std::string_view given = rest.substr(0, std::min(piece, wanted));
    rest.remove_prefix(given.size());
    if (!acceptor.take(given)) return;
    if (acceptor.done()) std::abort();
  }
}

}  // namespace lockstep::testing

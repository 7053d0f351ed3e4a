#include <optional>
#include <string>

#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"
#include "lockstep/net/peers/peer_handshake.h"

namespace lockstep::fuzz {

// A stranger does not know the key: whatever it sends, it is not let in.
void run_peer_handshake(std::string_view bytes) {
  AcceptorHandshake acceptor("a key that nobody can guess", 1);
  while (!bytes.empty()) {
    const std::size_t wanted = acceptor.wanted_bytes();
    LOCKSTEP_HOLDS(wanted > 0 && wanted <= AcceptorHandshake::kLongestMessage);
    const std::string_view piece = bytes.substr(0, wanted);
    bytes.remove_prefix(piece.size());
    if (!acceptor.take(piece)) return;
    LOCKSTEP_HOLDS(!acceptor.done());
  }
}

}  // namespace lockstep::fuzz

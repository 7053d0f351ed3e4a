#include <string>

#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"
#include "lockstep/net/store/handshake.h"

namespace lockstep::fuzz {

void run_store_handshake(std::string_view bytes) {
  ServerHandshake server("a secret that nobody can guess");
  while (!bytes.empty()) {
    const std::size_t wanted = server.wanted_bytes();
    LOCKSTEP_HOLDS(wanted > 0 && wanted <= 44);
    const std::string_view piece = bytes.substr(0, wanted);
    bytes.remove_prefix(piece.size());
    server.take(piece);
    LOCKSTEP_HOLDS(!server.done());
  }
}

}  // namespace lockstep::fuzz

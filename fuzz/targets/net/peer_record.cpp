#include <algorithm>
#include <cerrno>
#include <string>

#include "fuzz/fuzz_target.h"
#include "fuzz/targets/net/tapped_socket.h"
#include "fuzz/targets/targets.h"
#include "lockstep/net/hmac.h"
#include "lockstep/net/peers/peer_stream.h"

namespace lockstep::fuzz {

// Four bytes are an attacker's order; the bytes are also what one rank sends the other. Whatever the attacker does, the
// other rank gets the beginning of what was sent, and nothing else; and all of it if nothing was changed.
void run_peer_record(std::string_view bytes) {
  // The key depends on these bytes, so that a record that an earlier input made is worthless.
  const std::string key = hmac_sha256("peer_record", {bytes}), back(32, 'b');
  TappedSocket from, to;
  PeerStream sender(std::move(from.ours), StreamKeys{key, back});
  PeerStream receiver(std::move(to.ours), StreamKeys{back, key});
  std::string sent(bytes.substr(0, std::size_t{16} << 10));
  const iovec part{sent.data(), sent.size()};
  const ssize_t taken = sent.empty() ? 0 : sender.send(&part, 1);
  while (sender.flush()) {
  }
  LOCKSTEP_HOLDS(taken == static_cast<ssize_t>(sent.size()));
  const std::string carried = from.carried();
  const std::string arriving = attacked(carried, bytes.substr(0, 256));
  to.deliver(arriving);
  std::string received;
  std::string block(1000, '\0');
  const iovec place{block.data(), block.size()};
  ssize_t got = 0;
  while ((got = receiver.receive(&place, 1)) > 0) received.append(block, 0, static_cast<std::size_t>(got));
  LOCKSTEP_HOLDS(got == 0 || errno == EBADMSG);
  LOCKSTEP_HOLDS(received.size() <= sent.size() && std::equal(received.begin(), received.end(), sent.begin()));
  if (arriving == carried) LOCKSTEP_HOLDS(got == 0 && received == sent);
}

}  // namespace lockstep::fuzz

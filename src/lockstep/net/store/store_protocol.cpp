#include "lockstep/net/store/store_protocol.h"

#include <fmt/format.h>

namespace lockstep {

void write_peer(WireWriter& message, const Peer& peer) {
  message.u32(static_cast<std::uint32_t>(peer.global_rank));
  message.text(peer.host.substr(0, kMaxHostBytes));
  message.text(peer.host_id.substr(0, kMaxHostIdBytes));
  message.u32(static_cast<std::uint32_t>(peer.pid));
  message.u32(static_cast<std::uint32_t>(peer.local_rank));
}

Peer read_peer(WireReader& message) {
  Peer peer;
  peer.global_rank = static_cast<int>(message.u32());
  peer.host = message.text(kMaxHostBytes);
  peer.host_id = message.text(kMaxHostIdBytes);
  peer.pid = static_cast<pid_t>(message.u32());
  peer.local_rank = static_cast<int>(message.u32());
  return peer;
}

std::string describe(const Peer& peer) {
  return fmt::format("rank {} (process {} on {})", peer.global_rank, peer.pid, peer.host);
}

}  // namespace lockstep

#pragma once

#include <cstddef>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/detail/net/membership.h"

namespace lockstep {

/// The membership as if ranks were dealt to this many hosts, one after the other. Sets LOCKSTEP_GLOO_INTERFACE to
/// loopback: there is no route from this host to itself.
inline Membership on_hosts(Membership membership, int hosts) {
  ::setenv("LOCKSTEP_GLOO_INTERFACE", "lo", 1);
  std::vector<int> counts(static_cast<std::size_t>(hosts), 0);
  for (Peer& peer : membership.peers) {
    const int host = peer.global_rank % hosts;
    peer.host_id += "/pretended " + std::to_string(host);
    peer.local_rank = counts[static_cast<std::size_t>(host)]++;
  }
  return membership;
}

/// The same with this many ranks on each host, where the first host has the first ranks.
inline Membership on_hosts_of(Membership membership, const std::vector<int>& ranks_of_each) {
  ::setenv("LOCKSTEP_GLOO_INTERFACE", "lo", 1);
  auto peer = membership.peers.begin();
  for (std::size_t host = 0; host < ranks_of_each.size(); ++host) {
    for (int local_rank = 0; local_rank < ranks_of_each[host]; ++local_rank, ++peer) {
      peer->host_id += "/pretended " + std::to_string(host);
      peer->local_rank = local_rank;
    }
  }
  return membership;
}

inline Membership on_two_hosts(Membership membership) { return on_hosts(std::move(membership), 2); }

}  // namespace lockstep

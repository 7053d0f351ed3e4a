#include "lockstep/comm/failure/named_rank.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {
namespace {

bool has_own_process(const Membership& membership, const Peer& peer) {
  const auto same = [&](const Peer& other) { return other.pid == peer.pid && other.host_id == peer.host_id; };
  return peer.pid > 0 && std::count_if(membership.peers.begin(), membership.peers.end(), same) == 1;
}

}  // namespace

std::string name_of(const Membership& membership, int rank) {
  const auto index = static_cast<std::size_t>(rank);
  if (rank < 0 || index >= membership.peers.size()) return fmt::format("rank {}", rank);
  const Peer& peer = membership.peers[index];
  const std::string in_job = peer.global_rank == rank ? "" : fmt::format(" ({} of the job)", peer.global_rank);
  const std::string process = has_own_process(membership, peer) ? fmt::format(" (process {})", peer.pid) : "";
  return fmt::format("rank {}{} on {}{}", rank, in_job, peer.host, process);
}

NamedRank named_rank(const Membership& membership, int rank) {
  const auto index = static_cast<std::size_t>(rank);
  const bool is_known = rank >= 0 && index < membership.peers.size();
  return {name_of(membership, rank), is_known ? membership.peers[index].global_rank : -1};
}

std::string start_of_group(const Membership& membership) {
  return fmt::format("the start of group \"{}\"", membership.group);
}

}  // namespace lockstep

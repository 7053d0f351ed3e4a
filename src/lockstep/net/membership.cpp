#include "lockstep/detail/net/membership.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/processor/topology.h"
#include "lockstep/net/store/patience.h"

namespace lockstep {

Deadline Membership::deadline() const {
  Deadline limit = Deadline::after(timeout, patience ? patience->extension() : nullptr);
  return is_part() ? limit.later_by(rear_guard) : std::move(limit);
}

Deadline Membership::join_deadline() const {
  return Deadline::after(join_timeout.value_or(timeout), patience ? patience->extension() : nullptr)
      .later_by(rear_guard);
}

bool Membership::on_one_network() const {
  return std::all_of(peers.begin(), peers.end(), [this](const Peer& peer) {
    return network_of_host(peer.host_id) == network_of_host(peers.front().host_id);
  });
}

std::string Membership::where() const {
  const auto index = static_cast<std::size_t>(rank);
  const std::string host = index < peers.size() ? " on " + peers[index].host : std::string();
  const std::string named = group == "default" ? std::string() : ", group " + group;
  return fmt::format("rank {} of {}{}{}", rank, world_size, host, named);
}

}  // namespace lockstep

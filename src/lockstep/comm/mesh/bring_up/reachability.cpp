#include "lockstep/comm/mesh/bring_up/reachability.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/failure/named_rank.h"
#include "lockstep/comm/mesh/bring_up/bring_up.h"
#include "lockstep/net/sockets/socket.h"

namespace lockstep {
namespace {

// A host that drops packets does not answer: three attempts of TCP fit into this time.
constexpr std::chrono::milliseconds kLongestAttempt{5000};

const char* const kListensPrefix = "mesh/listens/";
const char* const kReachesPrefix = "mesh/reaches/";

// The first rank of each host.
std::vector<int> one_of_each_host(const Membership& membership) {
  std::set<std::string> seen;
  std::vector<int> ranks;
  for (int rank = 0; rank < membership.world_size; ++rank) {
    if (seen.insert(membership.peers[static_cast<std::size_t>(rank)].host_id).second) ranks.push_back(rank);
  }
  return ranks;
}

// One line for each rank of `others` that this one cannot connect to.
std::string unreachable(const Membership& membership, const std::vector<int>& others, Deadline deadline) {
  std::string lines;
  for (const int other : others) {
    if (other == membership.rank) continue;
    const std::string where = membership.store->get(kListensPrefix + std::to_string(other), deadline);
    const Deadline attempt = Deadline::after(std::min(kLongestAttempt, deadline.remaining()));
    std::string failure;
    try {
      failure = connect_once(SocketAddress::parse(where), false, attempt).failure;
    } catch (const Error& error) {
      failure = error.happened();
    }
    if (failure.empty()) continue;
    failure =
        failure.substr(failure.rfind(": ") == std::string::npos ? 0 : failure.rfind(": ") + 2);  // without the address
    lines += fmt::format("\n    {} cannot connect to {} at {}: {}", name_of(membership, membership.rank),
                         name_of(membership, other), where, failure);
  }
  return lines;
}

}  // namespace

void check_reachable(const Membership& membership, const std::string& listens_at, Deadline deadline) {
  if (membership.on_one_network()) return;
  const std::vector<int> ranks = one_of_each_host(membership);
  if (std::find(ranks.begin(), ranks.end(), membership.rank) != ranks.end()) {
    membership.store->set(kListensPrefix + std::to_string(membership.rank), listens_at);
    wait_for_ranks(membership, ranks, kListensPrefix, deadline);
    membership.store->set(kReachesPrefix + std::to_string(membership.rank), unreachable(membership, ranks, deadline));
  }
  wait_for_ranks(membership, ranks, kReachesPrefix, deadline);
  std::string lines;
  for (const int rank : ranks) lines += membership.store->get(kReachesPrefix + std::to_string(rank), deadline);
  if (lines.empty()) return;
  throw Error("hosts of this group cannot reach each other:" + lines, membership.where(),
              "check cables, firewalls and routes between these addresses; if a host has several networks, set "
              "LOCKSTEP_GLOO_INTERFACE (or GLOO_SOCKET_IFNAME) to the interface that the others reach");
}

}  // namespace lockstep

#include "lockstep/launch/elastic/agreed_places.h"

#include <fmt/format.h>

#include "lockstep/base/log.h"
#include "lockstep/launch/nodes/shared_store.h"

namespace lockstep {

int first_number(const Generation& generation, const std::string& id) {
  int first = 0;
  for (const Generation::Host& host : generation.hosts) {
    if (host.id == id) break;
    first += host.local_ranks;
  }
  return generation.first_member >= 0 ? generation.first_member : first;
}

Agreement agreement_of(const Generation& generation, const std::string& id, const LaunchPlan& plan,
                       const std::string& store) {
  Agreement agreement;
  agreement.generation = generation.number - 1;
  agreement.restarts = generation.restarts;
  agreement.nodes = static_cast<int>(generation.hosts.size());
  agreement.master_port = generation.master_port;
  if (const SocketAddress now = SocketAddress::parse(store); now.host != store_address_of(plan).host) {
    agreement.master_addr = now.host;
  }
  agreement.world_size = 0;
  std::string names;
  for (std::size_t node = 0; node < generation.hosts.size(); ++node) {
    if (generation.hosts[node].id == id) {
      agreement.node_rank = static_cast<int>(node);
      agreement.first_rank = agreement.world_size;
    }
    agreement.world_size += generation.hosts[node].local_ranks;
    names += (node == 0 ? "" : ", ") + generation.hosts[node].name;
  }
  if (generation.first_member >= 0) {
    agreement.first_member = agreement.first_rank = generation.first_member;
    agreement.world_size = generation.first_member + plan.local_ranks;
    log_warning("this host joins the running ranks of {} ({}) under the numbers from {} on",
                agreement.nodes == 2 ? "another host" : "the other hosts", names, generation.first_member);
    return agreement;
  }
  const std::string text =
      fmt::format("the ranks start: {} on {} host{} ({}), restarts so far: {} of {}", agreement.world_size,
                  agreement.nodes, agreement.nodes == 1 ? "" : "s", names, agreement.restarts, plan.max_restarts);
  if (agreement.generation == 0) {
    log_info("{}", text);
  } else {
    log_warning("{}", text);
  }
  return agreement;
}

}  // namespace lockstep

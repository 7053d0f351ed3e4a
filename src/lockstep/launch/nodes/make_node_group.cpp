#include "lockstep/launch/nodes/make_node_group.h"

#include "lockstep/launch/elastic/elastic_nodes.h"
#include "lockstep/launch/nodes/one_node.h"
#include "lockstep/launch/nodes/static_nodes.h"

namespace lockstep {

std::unique_ptr<NodeGroup> make_node_group(const LaunchPlan& plan, const JobFolder& folder) {
  if (plan.nodes == 1) return std::make_unique<OneNode>(plan, folder.socket_path());
  if (plan.node_ranks == NodeRanks::Given) return std::make_unique<StaticNodes>(plan);
  return std::make_unique<ElasticNodes>(plan, folder.store_file());
}

}  // namespace lockstep

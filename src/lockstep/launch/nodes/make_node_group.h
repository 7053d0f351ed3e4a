#pragma once

#include <memory>
#include <string>

#include "lockstep/launch/job_folder.h"
#include "lockstep/launch/nodes/node_group.h"
#include "lockstep/launch/plan.h"

namespace lockstep {

/// One node, or several whose number is fixed, or several that join and leave, as the plan requires. If this node
/// serves the store, it does so from now on; otherwise it connects to the store.
/// @param folder  the job's private one, for a socket to serve on if there is one node, and for what ranks are told
/// @throws Error  if the address is taken, or the nodes do not match each other
/// @throws TimeoutError  naming the nodes that did not arrive
std::unique_ptr<NodeGroup> make_node_group(const LaunchPlan& plan, const JobFolder& folder);

}  // namespace lockstep

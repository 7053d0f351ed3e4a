#pragma once

#include <string>

#include "lockstep/launch/nodes/node_group.h"
#include "lockstep/launch/plan.h"
#include "lockstep/launch/ranks/cpu_share.h"

namespace lockstep {

/// What a job is about to do on this node, for a person: "4 ranks on this host; each computes with 2 threads, on 2
/// cores of its own; …". One line, without its end.
/// @param users_threads  OMP_NUM_THREADS if the user set it; empty: Lockstep shares the threads
std::string summary_of(const LaunchPlan& plan, const Agreement& agreement, const NodeCores& node,
                       const std::string& users_threads);

}  // namespace lockstep

#pragma once

#include <string>

#include "lockstep/launch/elastic/messages.h"
#include "lockstep/launch/nodes/node_group.h"

namespace lockstep {

/// The number of the first process of the host `id` in a generation.
int first_number(const Generation& generation, const std::string& id);

/// The places of the host's ranks in a generation that begins. Says them in the log.
/// @param store  address of the job's store now
Agreement agreement_of(const Generation& generation, const std::string& id, const LaunchPlan& plan,
                       const std::string& store);

}  // namespace lockstep

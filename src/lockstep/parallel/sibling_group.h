#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// Another group of the same ranks, for messages whose order is independent of those in `group`: each rank may send
/// here before or after sending there. All callers for one group share one sibling, which lives as long as that group.
/// The first call for a group is collective.
std::shared_ptr<Communicator> sibling_group(const std::shared_ptr<Communicator>& group);

/// Whether there is a sibling of any group: ranks may meet within forward and backward.
bool has_sibling_groups();

}  // namespace lockstep

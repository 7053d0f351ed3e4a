#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// Another group of the same ranks, for messages that must not depend on the order of those in `group`: what is sent
/// here may come before or after what is sent there, on each rank as it likes. All that ask for the siblings of one
/// group share one, which lives as long as that group. Collective over `group` in the first call for it.
std::shared_ptr<Communicator> sibling_group(const std::shared_ptr<Communicator>& group);

}  // namespace lockstep

#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// The group of one rank: every collective is a copy, or nothing. No peers, so no waiting and no failures.
std::unique_ptr<Communicator> make_single_communicator(Membership membership);

}  // namespace lockstep

#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// The group of one rank: every collective is a copy, or nothing. No peers, so no waiting and no failures. On a device
/// with streams copies get in line on the caller's, and nobody waits for them.
std::unique_ptr<Communicator> make_single_communicator(Membership membership, c10::Device device = c10::kCPU);

}  // namespace lockstep

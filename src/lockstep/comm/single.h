#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// The group of one rank: every collective is a copy, or nothing. No peers, so no waits and no failures. On a device
/// with streams, copies are queued on the caller's stream, and the call does not wait for them.
std::unique_ptr<Communicator> make_single_communicator(Membership membership, c10::Device device = c10::kCPU);

}  // namespace lockstep

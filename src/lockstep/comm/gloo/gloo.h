#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// Collectives over Gloo's TCP transport, between processes of one or several hosts, or threads. CPU tensors.
std::unique_ptr<Communicator> make_gloo_communicator(Membership membership);

}  // namespace lockstep

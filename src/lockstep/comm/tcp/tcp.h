#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// Collectives over TCP connections that the job's secret proves, between processes of one or several hosts, or
/// threads. CPU tensors.
std::unique_ptr<Communicator> make_tcp_communicator(Membership membership);

}  // namespace lockstep

#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// Engine "shm": ranks are processes of one host and share memory. Collective.
/// @throws Error  as shm::join
std::unique_ptr<Communicator> make_shm_communicator(Membership membership);

/// Engine "thread": ranks are threads of one process. It reduces any tensor in place; "shm" does so only for allocated
/// ones. Collective.
std::unique_ptr<Communicator> make_thread_communicator(Membership membership);

}  // namespace lockstep

#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// Engine "shm": ranks are processes of one host and share memory. Collective.
/// @throws Error  as shm::join does
std::unique_ptr<Communicator> make_shm_communicator(Membership membership);

/// Engine "thread": ranks are threads of one process. Any tensor is reduced in place, as only allocated ones are by
/// "shm". Collective.
std::unique_ptr<Communicator> make_thread_communicator(Membership membership);

}  // namespace lockstep

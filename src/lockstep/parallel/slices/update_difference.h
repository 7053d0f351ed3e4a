#pragma once

#include <cstdint>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// Names the updates that the ranks are in. A rank that has left out an update after an exception would add gradients
/// of different updates to the others'. Collective: every rank has learned that the numbers differ.
/// @param update  of this rank
[[noreturn]] void throw_different_updates(Communicator& communicator, std::uint64_t update);

}  // namespace lockstep

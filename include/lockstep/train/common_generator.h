#pragma once

#include <functional>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// Runs `body` with rank 0's state of LibTorch's CPU generator on every rank, so that what it draws is the same. Where
/// that was a rank's own state, as it is on rank 0, the generator continues from there, as in one process; other ranks
/// have their own state again afterwards. Collective.
void with_common_generator(Communicator& communicator, const std::function<void()>& body);

}  // namespace lockstep

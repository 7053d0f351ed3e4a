#pragma once

#include <functional>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// Runs `body` with rank 0's state of LibTorch's CPU generator on every rank, so that what it draws is the same. Rank
/// 0's generator goes on from there, as in one process; the others have their own state again afterwards. Collective.
void with_common_generator(Communicator& communicator, const std::function<void()>& body);

}  // namespace lockstep

#pragma once

#include <functional>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// Runs `body` on every rank with rank 0's state of LibTorch's CPU generator, so that all ranks draw the same numbers.
/// A rank whose own state equals it, such as rank 0, keeps the advanced state, as one process would; other ranks get
/// their own state back. Collective.
void with_common_generator(Communicator& communicator, const std::function<void()>& body);

}  // namespace lockstep

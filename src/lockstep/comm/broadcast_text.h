#pragma once

#include <string>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// Returns the `text` of `root` on every rank: any bytes, of any length. Collective.
std::string broadcast_text(Communicator& communicator, const std::string& text, int root = 0);

}  // namespace lockstep

#pragma once

#include <string>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// Ends the group with the reason `what`, so that the other ranks do not wait for messages that are never sent, and
/// throws an Error here.
[[noreturn]] void end_group(Communicator& communicator, const std::string& what, const std::string& fix);

}  // namespace lockstep

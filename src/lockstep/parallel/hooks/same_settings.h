#pragma once

#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// Requires that all ranks have the same lines, such as options and how many steps they have made. One message of 8
/// bytes from each rank if they do. Collective.
/// @param of  whose settings, for the message. @throws Error  on every rank, with the first difference and two ranks
void require_same_settings(Communicator& communicator, const std::string& of, const std::vector<std::string>& lines);

}  // namespace lockstep

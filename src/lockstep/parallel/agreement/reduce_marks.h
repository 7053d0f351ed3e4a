#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// Sets each mark to the largest of all ranks' marks. Collective.
void reduce_marks(Communicator& communicator, std::vector<std::uint8_t>& marks);

}  // namespace lockstep

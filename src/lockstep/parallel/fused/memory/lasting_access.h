#pragma once

#include <memory>

#include "lockstep/parallel/fused/memory/fused_memory.h"

namespace lockstep {

/// For ranks that share weights and gradients in memory which outlives their group: nothing is moved, and no end of the
/// group takes the memory away. It reduces nothing; that is the matter of what is built on it.
std::unique_ptr<FusedMemory> make_lasting_access(Communicator& communicator);

}  // namespace lockstep

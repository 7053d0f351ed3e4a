#pragma once

#include <iosfwd>

#include "lockstep/launch/accelerate/accelerate_config.h"

namespace lockstep {

/// Asks Accelerate's questions, in its order, and returns the answers. An empty line takes the default; an answer that
/// does not fit is explained and asked again. Works with a person or a file at the other end.
/// @throws Error  where `in` ends before the last answer
AccelerateConfig ask_config(std::istream& in, std::ostream& out);

}  // namespace lockstep

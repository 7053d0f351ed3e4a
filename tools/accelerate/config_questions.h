#pragma once

#include <iosfwd>

#include "tools/accelerate/accelerate_config.h"

namespace lockstep {

/// Asks Accelerate's questions, in its order, and returns the answers. An empty line takes the default. An invalid
/// answer is explained, and the question is asked again. The other end may be a person or a file.
/// @throws Error  if `in` ends before the last answer
AccelerateConfig ask_config(std::istream& in, std::ostream& out);

}  // namespace lockstep

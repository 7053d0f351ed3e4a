#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// The name that `typed` was probably meant to be: the one with the least edits, of at most a third of its letters.
/// Empty where none is near.
std::string nearest_name(const std::string& typed, const std::vector<std::string>& names);

}  // namespace lockstep

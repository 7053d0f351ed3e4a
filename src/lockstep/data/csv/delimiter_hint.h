#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// The delimiter that a header seems to have: the beginning of a fix, or empty if `columns` is not one name with
/// another delimiter in it.
std::string delimiter_hint(const std::vector<std::string>& columns);

}  // namespace lockstep

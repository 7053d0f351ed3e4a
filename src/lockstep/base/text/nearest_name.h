#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// The name that `typed` was probably meant to be: the one with the fewest edits, if they are at most a third of its
/// letters. Empty if no name is near.
std::string nearest_name(const std::string& typed, const std::vector<std::string>& names);

/// "; did you mean 'NAME'?", to be put after a sentence that quotes `typed`; empty if no name is near.
std::string did_you_mean(const std::string& typed, const std::vector<std::string>& names);

}  // namespace lockstep

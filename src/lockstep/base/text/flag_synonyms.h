#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// The flag of `names` that `typed` ("--batch-size", "-np") means in the field's other programs; empty if there is
/// none.
/// @param typed, names  with hyphens
std::string flag_synonym(const std::string& typed, const std::vector<std::string>& names);

/// What a refusal of the flag `typed` suggests, in the form of did_you_mean: a synonym, else the nearest name.
std::string suggest_flag(const std::string& typed, const std::vector<std::string>& names);

}  // namespace lockstep

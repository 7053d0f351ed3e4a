#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace lockstep {

/// The argument that `name` was probably meant to be, as did_you_mean says it: a synonym, or else the nearest name.
std::string suggested_argument(const std::string& name);

/// Refuses a file that has several names which are not training arguments, and lists all of them, so that nobody has to
/// correct them one by one. A single one is left to set_training_argument, which says more about it.
/// @param document  an object with a value for each name
/// @throws UsageError  with a reason for each name
void refuse_unknown_arguments(const nlohmann::json& document, const std::string& path);

}  // namespace lockstep

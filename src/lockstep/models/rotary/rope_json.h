#pragma once

#include <nlohmann/json_fwd.hpp>

#include "lockstep/detail/models/config_file.h"
#include "lockstep/detail/models/rotary_config.h"

namespace lockstep {

/// Reads "rope_parameters" as transformers 5 writes it, or "rope_theta" and "rope_scaling" of older files.
/// @param fallback  what a file has that says nothing of them
/// @throws Error  naming the field, for another kind of positions than RopeSettings has
RopeSettings read_rope(const ConfigFile& file, const RopeSettings& fallback);

/// Writes them in the form that `json` has; in that of transformers 5 if it has none.
void write_rope(const RopeSettings& rope, nlohmann::json& json);

}  // namespace lockstep

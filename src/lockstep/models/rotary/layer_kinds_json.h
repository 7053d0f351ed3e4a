#pragma once

#include <nlohmann/json_fwd.hpp>

#include "lockstep/detail/models/config_file.h"
#include "lockstep/detail/models/rotary_config.h"
#include "lockstep/models/rotary/rotary_layout.h"

namespace lockstep {

/// Reads which layers see a window of tokens only, and which have no positions. `settings` has its number of layers.
/// @throws Error  naming the field
void read_layer_kinds(const ConfigFile& file, const RotaryLayout& layout, RotarySettings& settings);
void write_layer_kinds(const RotarySettings& settings, const RotaryLayout& layout, nlohmann::json& json);

}  // namespace lockstep

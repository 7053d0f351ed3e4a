#pragma once

#include <nlohmann/json.hpp>
#include <optional>

namespace lockstep {

/// What `fsdp_config` would say with `fsdp` true, as accelerate's launcher and `lockstep launch` hand it on from their
/// configuration file, by FSDP_VERSION, FSDP_RESHARD_AFTER_FORWARD and so on. Nothing if ACCELERATE_USE_FSDP is not
/// true.
std::optional<nlohmann::json> fsdp_config_of_environment();

}  // namespace lockstep

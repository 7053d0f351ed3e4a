// What `lockstep bench step --profile` prints below its table.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace lockstep {

/// The text of a profile that lockstep-step-worker wrote: what part of a step are matrix products, what they would take
/// alone and in registers alone, and where the rest goes.
std::string step_profile_text(const std::string& system, int ranks, const nlohmann::ordered_json& profile);

}  // namespace lockstep

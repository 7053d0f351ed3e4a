#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace lockstep {

/// A setting's text as a value: true or false in any case and whole numbers of up to 18 digits as such, all else as
/// text.
nlohmann::json setting_value(const std::string& text);

}  // namespace lockstep

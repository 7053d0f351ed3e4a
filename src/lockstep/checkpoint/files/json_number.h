#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

namespace lockstep {

/// A number as JSON, exact to the bit. JSON cannot hold NaN and infinities, so they become the texts "NaN", "Infinity"
/// and "-Infinity", which Python's `float` accepts.
nlohmann::json json_of_number(double value);
/// The number that `json_of_number` wrote; nothing if `value` is not such a number.
std::optional<double> number_in(const nlohmann::json& value);

}  // namespace lockstep

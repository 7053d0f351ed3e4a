#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

namespace lockstep {

/// A number as JSON, to the bit. NaN and infinities, which JSON has not, become the texts "NaN", "Infinity" and
/// "-Infinity", which Python's `float` takes.
nlohmann::json json_of_number(double value);
/// The number that `json_of_number` wrote; nothing where `value` is none.
std::optional<double> number_in(const nlohmann::json& value);

}  // namespace lockstep

#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace lockstep {

/// A number as JSON, exact to the bit. JSON cannot hold NaN and infinities, so they become the texts "NaN", "Infinity"
/// and "-Infinity", which Python's `float` accepts.
nlohmann::json json_of_number(double value);
/// The number that `json_of_number` wrote; nothing if `value` is not such a number.
std::optional<double> number_in(const nlohmann::json& value);
/// The whole number in `value`, which may be written as 500.0; nothing if there is a fraction or T cannot hold it. T is
/// int, std::int64_t or std::uint64_t.
template <typename T>
std::optional<T> whole_number_in(const nlohmann::json& value);
/// The number in `value` if it is written as a whole number, without a fraction or an exponent; nothing if it is not,
/// or std::int64_t cannot hold it.
std::optional<std::int64_t> integer_in(const nlohmann::json& value);
/// The whole number in the object's field `key`. Throws Error, which names `path`, if there is no such number.
template <typename T>
T whole_number_at(const nlohmann::json& object, const char* key, const std::string& path);

}  // namespace lockstep

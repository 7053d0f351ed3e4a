#include "lockstep/checkpoint/files/json_number.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"

namespace lockstep {

nlohmann::json json_of_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

std::optional<double> number_in(const nlohmann::json& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (value == "Infinity") return std::numeric_limits<double>::infinity();
  if (value == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

template <typename T>
std::optional<T> whole_number_in(const nlohmann::json& value) {
  using Limits = std::numeric_limits<T>;
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    return number <= static_cast<std::uint64_t>(Limits::max()) ? std::optional(static_cast<T>(number)) : std::nullopt;
  }
  if (value.is_number_integer()) {  // below 0
    const auto number = value.get<std::int64_t>();
    const bool fits = Limits::is_signed && number >= static_cast<std::int64_t>(Limits::min());
    return fits ? std::optional(static_cast<T>(number)) : std::nullopt;
  }
  constexpr double kExactTo = 9007199254740992;  // 2^53: beyond it, a double is not a count
  const double most = std::min(kExactTo, static_cast<double>(Limits::max()));
  const double least = Limits::is_signed ? -most : 0;
  const double number = value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
  const bool is_whole = number >= least && number <= most && number == std::trunc(number);
  return is_whole ? std::optional(static_cast<T>(number)) : std::nullopt;
}

std::optional<std::int64_t> integer_in(const nlohmann::json& value) {
  return value.is_number_integer() ? whole_number_in<std::int64_t>(value) : std::nullopt;
}

template <typename T>
T whole_number_at(const nlohmann::json& object, const char* key, const std::string& path) {
  const auto found = object.find(key);
  const std::optional<T> number = found == object.end() ? std::nullopt : whole_number_in<T>(*found);
  if (number) return *number;
  const std::string problem = found == object.end() ? "is missing" : "is " + found->dump().substr(0, 100);
  throw Error(fmt::format("{}: \"{}\" {}, not a whole number in range", path, key, problem), path,
              "resume from another checkpoint");
}

template std::optional<int> whole_number_in(const nlohmann::json&);
template std::optional<std::int64_t> whole_number_in(const nlohmann::json&);
template std::optional<std::uint64_t> whole_number_in(const nlohmann::json&);
template int whole_number_at(const nlohmann::json&, const char*, const std::string&);
template std::int64_t whole_number_at(const nlohmann::json&, const char*, const std::string&);
template std::uint64_t whole_number_at(const nlohmann::json&, const char*, const std::string&);

}  // namespace lockstep

#pragma once

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>

namespace lockstep {

/// A number as JSON that keeps its bits, NaN and infinities among them.
inline nlohmann::json exact_number(double value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

inline double number_of_exact(const nlohmann::json& json) {
  const auto bits = json.get<std::uint64_t>();
  double value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace lockstep

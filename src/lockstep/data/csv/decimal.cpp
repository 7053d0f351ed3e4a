#include "lockstep/data/csv/decimal.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace lockstep {
namespace {

constexpr std::array<double, 16> kPowersOfTen{1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                              1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};

// Appends the decimal digits at `at` to `number`, which wraps around if there are too many. Returns the end of the
// digits.
const char* read_digits(const char* at, const char* end, std::uint64_t& number) {
  for (; at != end && static_cast<unsigned char>(*at - '0') < 10; ++at) {
    number = 10 * number + static_cast<std::uint64_t>(*at - '0');
  }
  return at;
}

}  // namespace

std::optional<double> parse_decimal(std::string_view text) {
  const char* at = text.data();
  const char* const end = at + text.size();
  const bool negative = at != end && *at == '-';
  if (at != end && (*at == '-' || *at == '+')) ++at;

  // Up to 15 digits fit a double exactly, and so does the power of ten: one division rounds correctly.
  std::uint64_t digits = 0;
  const char* const point = read_digits(at, end, digits);
  const char* const behind = point + (point != end && *point == '.' ? 1 : 0);
  const char* const stop_of_digits = read_digits(behind, end, digits);
  const auto count = (point - at) + (stop_of_digits - behind);
  if (stop_of_digits == end && count > 0 && count <= 15) {
    double number = static_cast<double>(digits);
    if (end != behind) number /= kPowersOfTen[end - behind];
    return negative ? -number : number;
  }

  double value = 0;
  const auto [stop, code] = std::from_chars(at, end, value);
  if (code != std::errc() || stop != end || at == end || *at == '-' || !std::isfinite(value)) return std::nullopt;
  return negative ? -value : value;
}

}  // namespace lockstep

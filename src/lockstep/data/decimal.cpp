#include "lockstep/data/decimal.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace lockstep {
namespace {

constexpr std::array<double, 16> kPowersOfTen{1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                              1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};

}  // namespace

std::optional<double> parse_decimal(std::string_view text) {
  const char* at = text.data();
  const char* const end = at + text.size();
  const bool negative = at != end && *at == '-';
  if (at != end && (*at == '-' || *at == '+')) ++at;

  // Up to 15 digits fit a double exactly, and so does the power of ten below them: one division rounds correctly.
  std::uint64_t digits = 0;
  int count = 0;
  int behind_point = -1;  // none seen
  const char* next = at;
  for (; next != end && count + behind_point < 30; ++next) {
    const auto digit = static_cast<unsigned>(*next - '0');
    if (digit < 10) {
      digits = 10 * digits + digit;
      ++count;
      if (behind_point >= 0) ++behind_point;
    } else if (*next == '.' && behind_point < 0) {
      behind_point = 0;
    } else {
      break;
    }
  }
  if (next == end && count > 0 && count <= 15) {
    double value = static_cast<double>(digits);
    if (behind_point > 0) value /= kPowersOfTen[behind_point];
    return negative ? -value : value;
  }

  double value = 0;
  const auto [stop, code] = std::from_chars(at, end, value);
  if (code != std::errc() || stop != end || at == end || *at == '-' || !std::isfinite(value)) return std::nullopt;
  return negative ? -value : value;
}

}  // namespace lockstep

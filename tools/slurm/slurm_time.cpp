#include "tools/slurm/slurm_time.h"

#include <array>
#include <string_view>

#include "lockstep/launch/process/text_cursor.h"

namespace lockstep {
namespace {

constexpr std::int64_t kMinute = 60;
constexpr std::int64_t kHour = 60 * kMinute;
constexpr std::int64_t kDay = 24 * kHour;

std::int64_t number(std::string_view digits) { return digits.empty() ? 0 : std::stoll(std::string(digits)); }

// ":MM" or ":SS"; false if no digits follow a colon.
bool take_part(TextCursor& at, std::string_view& digits) {
  if (!at.take(":")) return true;
  digits = at.digits(2);
  return !digits.empty();
}

}  // namespace

std::optional<std::int64_t> slurm_seconds(const std::string& limit) {
  constexpr std::size_t kMostDigits = 9;
  constexpr std::size_t kMostDigitsOfDays = 6;
  TextCursor at(limit);
  const std::string_view first = at.digits(kMostDigits);
  if (first.empty()) return std::nullopt;
  const bool has_days = at.take("-");
  const std::string_view hours = has_days ? at.digits(kMostDigitsOfDays) : std::string_view();
  if (has_days && (hours.empty() || first.size() > kMostDigitsOfDays)) return std::nullopt;
  std::array<std::string_view, 2> parts;
  for (std::string_view& part : parts) {
    if (!take_part(at, part)) return std::nullopt;
  }
  if (!at.at_end()) return std::nullopt;
  if (has_days) return number(first) * kDay + number(hours) * kHour + number(parts[0]) * kMinute + number(parts[1]);
  if (!parts[1].empty()) return number(first) * kHour + number(parts[0]) * kMinute + number(parts[1]);
  return number(first) * kMinute + number(parts[0]);
}

bool is_signalled_at_start(std::int64_t limit_s, std::int64_t lead_s) {
  constexpr std::int64_t kEarly = 60;
  return limit_s > 0 && limit_s <= lead_s + kEarly;
}

}  // namespace lockstep

#include "lockstep/launch/slurm_time.h"

#include <regex>

namespace lockstep {

std::optional<std::int64_t> slurm_seconds(const std::string& limit) {
  static const std::regex with_days(R"((\d{1,6})-(\d{1,6})(?::(\d{1,2}))?(?::(\d{1,2}))?)");
  static const std::regex without(R"((\d{1,9})(?::(\d{1,2}))?(?::(\d{1,2}))?)");
  const auto number = [](const std::ssub_match& text) { return text.matched ? std::stoll(text) : 0; };
  std::smatch part;
  if (std::regex_match(limit, part, with_days)) {
    return ((number(part[1]) * 24 + number(part[2])) * 60 + number(part[3])) * 60 + number(part[4]);
  }
  if (!std::regex_match(limit, part, without)) return std::nullopt;
  if (part[3].matched) return (number(part[1]) * 60 + number(part[2])) * 60 + number(part[3]);
  return number(part[1]) * 60 + number(part[2]);
}

bool is_signalled_at_start(std::int64_t limit_s, std::int64_t lead_s) {
  constexpr std::int64_t kEarly = 60;
  return limit_s > 0 && limit_s <= lead_s + kEarly;
}

}  // namespace lockstep

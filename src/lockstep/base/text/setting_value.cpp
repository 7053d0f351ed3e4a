#include "lockstep/base/text/setting_value.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "lockstep/base/text/lower_case.h"

namespace lockstep {

nlohmann::json setting_value(const std::string& text) {
  const std::string lower = lower_case(text);
  if (lower == "true" || lower == "false") return lower == "true";
  constexpr std::size_t kMostDigits = 18;  // fit into 64 bits
  const bool is_number = !text.empty() && text.size() <= kMostDigits &&
                         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  return is_number ? nlohmann::json(std::stoll(text)) : nlohmann::json(text);
}

}  // namespace lockstep

#include "tools/slurm/slurm_values.h"

#include <string_view>

#include "lockstep/base/text/lower_case.h"
#include "lockstep/launch/process/text_cursor.h"

namespace lockstep {
namespace {

constexpr std::size_t kMostDigits = 6;

bool is_from_one(std::string_view digits) { return digits.find_first_not_of('0') != std::string_view::npos; }

std::optional<int> whole(std::string_view text) {
  TextCursor at(text);
  const std::string_view digits = at.digits(kMostDigits);
  if (digits.empty() || !at.at_end()) return std::nullopt;
  return std::stoi(std::string(digits));
}

}  // namespace

bool is_slurm_count(const std::string& text) {
  TextCursor at(text);
  return is_from_one(at.digits()) && at.at_end();
}

bool is_slurm_nodes(const std::string& text) {
  TextCursor at(text);
  if (!is_from_one(at.digits())) return false;
  at.take("kKmM");
  while (!at.at_end()) {
    if (!at.take("-,:") || at.digits().empty()) return false;
    at.take("kKmM");
  }
  return true;
}

bool is_slurm_memory(const std::string& text) {
  TextCursor at(text);
  if (at.digits().empty()) return false;
  if (at.take("kKmMgGtT")) at.take("bB");
  return at.at_end();
}

bool is_slurm_unlimited(const std::string& text) {
  constexpr std::size_t kLongest = 9;
  if (text.size() > kLongest) return false;
  const std::string lower = lower_case(text);
  return lower == "unlimited" || lower == "infinite";
}

std::optional<int> slurm_number(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  return whole(std::string_view(text).substr(colon == std::string::npos ? 0 : colon + 1));
}

std::optional<int> slurm_signal_lead(const std::string& text) {
  const std::size_t mark = text.find('@');
  return mark == std::string::npos ? std::nullopt : whole(std::string_view(text).substr(mark + 1));
}

std::string nodes_in_comment(const std::string& line) {
  for (std::size_t at = 0; (at = line.find_first_of("0123456789", at)) != std::string::npos;) {
    TextCursor text(std::string_view(line).substr(at));
    const std::string_view digits = text.digits();
    at += digits.size();
    if (text.take_all(kBlanks).empty() || !text.take_word("node")) continue;
    text.take("s");
    if (!text.take(kNameCharacters)) return std::string(digits);
  }
  return "";
}

}  // namespace lockstep

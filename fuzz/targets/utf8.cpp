#include <optional>
#include <string>

#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/data/text/unicode/utf8.h"

namespace lockstep::fuzz {
namespace {

// The definition, a sequence at a time: Unicode 15, table 3-7. Returns the length of the sequence; 0 for anything else.
std::size_t sequence_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) -> unsigned {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0;
  };
  const auto follows = [&](std::size_t i) { return byte(i) >= 0x80 && byte(i) <= 0xBF; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF && follows(1)) return 2;
  const unsigned low3 = first == 0xE0 ? 0xA0 : 0x80;
  const unsigned high3 = first == 0xED ? 0x9F : 0xBF;
  if (first >= 0xE0 && first <= 0xEF && byte(1) >= low3 && byte(1) <= high3 && follows(2)) return 3;
  const unsigned low4 = first == 0xF0 ? 0x90 : 0x80;
  const unsigned high4 = first == 0xF4 ? 0x8F : 0xBF;
  if (first >= 0xF0 && first <= 0xF4 && byte(1) >= low4 && byte(1) <= high4 && follows(2) && follows(3)) return 4;
  return 0;
}

std::optional<std::size_t> first_invalid(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = sequence_at(text, at);
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

}  // namespace

void run_utf8(std::string_view bytes) {
  const std::optional<std::size_t> want = first_invalid(bytes);
  LOCKSTEP_HOLDS(text::find_invalid_utf8(bytes) == want);
  LOCKSTEP_HOLDS(text::is_valid_utf8(bytes) == !want.has_value());
  const std::string replaced = text::replace_invalid_utf8(bytes);
  LOCKSTEP_HOLDS(text::is_valid_utf8(replaced));
  if (!want) LOCKSTEP_HOLDS(replaced == bytes);
  const std::string shown = printable(bytes);
  LOCKSTEP_HOLDS(text::is_valid_utf8(shown));
  for (const char c : shown) LOCKSTEP_HOLDS(static_cast<unsigned char>(c) >= 0x20 && c != 0x7F);
}

}  // namespace lockstep::fuzz

#include "lockstep/base/text/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace lockstep {
namespace {

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;  // 0: invalid UTF-8
};

// The least code that needs this many bytes: a longer form of a code is invalid UTF-8.
constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};

Character first_of(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xf0 && lead < 0xf8 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 0;
  if (bytes == 0 || lead >= 0xf8 || text.size() < bytes) return {};
  std::uint32_t code = lead & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return {};
    code = code << 6U | (byte(i) & 0x3fU);
  }
  const bool is_surrogate = code >= 0xd800 && code < 0xe000;
  if (code < kLeast[bytes] || code > 0x10ffff || is_surrogate) return {};
  return {code, bytes};
}

bool is_between(std::uint32_t code, std::uint32_t first, std::uint32_t last) { return code >= first && code <= last; }

// Control characters, line separators, and marks and overrides of direction.
bool must_be_written_out(std::uint32_t code) {
  return code < 0x20 || is_between(code, 0x7f, 0x9f) || code == 0x61c || is_between(code, 0x200e, 0x200f) ||
         is_between(code, 0x2028, 0x202e) || is_between(code, 0x2066, 0x2069);
}

std::string written_out(std::uint32_t code) {
  if (code == '\n') return "\\n";
  if (code == '\t') return "\\t";
  if (code == '\r') return "\\r";
  return code < 0x80 ? fmt::format("\\x{:02x}", code) : fmt::format("\\u{:04x}", code);
}

}  // namespace

std::string printable(std::string_view text, std::size_t most) {
  std::string shown;
  const std::size_t size = text.size();
  for (std::size_t count = 0; !text.empty(); ++count) {
    if (count == most) return fmt::format("{}... ({} bytes in all)", shown, size);
    const Character character = first_of(text);
    if (character.bytes == 0) {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    } else if (must_be_written_out(character.code)) {
      shown += written_out(character.code);
    } else {
      shown += text.substr(0, character.bytes);
    }
    text.remove_prefix(std::max<std::size_t>(character.bytes, 1));
  }
  return shown;
}

std::string printable_lines(std::string_view text, std::size_t most_of_a_line) {
  std::string shown;
  for (;;) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    shown += printable(text.substr(0, end), most_of_a_line);
    if (end == text.size()) return shown;
    shown += '\n';
    text.remove_prefix(end + 1);
  }
}

std::optional<std::size_t> invalid_utf8_at(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = first_of(text.substr(at)).bytes;
    if (bytes == 0) return at;
    at += bytes;
  }
  return std::nullopt;
}

}  // namespace lockstep

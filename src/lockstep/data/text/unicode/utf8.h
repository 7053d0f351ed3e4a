#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::text {

/// U+FFFD, which replaces invalid UTF-8.
constexpr char32_t kReplacementChar = 0xFFFD;

/// Returns the code point at `*position` of well-formed UTF-8, and moves `*position` past it. `*position` must be
/// inside.
inline char32_t decode_char(const char* data, std::size_t* position) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(data) + *position;
  const char32_t first = bytes[0];
  if (first < 0x80) {
    *position += 1;
    return first;
  }
  if (first < 0xE0) {
    *position += 2;
    return ((first & 0x1F) << 6) | (bytes[1] & 0x3Fu);
  }
  if (first < 0xF0) {
    *position += 3;
    return ((first & 0x0F) << 12) | ((bytes[1] & 0x3Fu) << 6) | (bytes[2] & 0x3Fu);
  }
  *position += 4;
  return ((first & 0x07) << 18) | ((bytes[1] & 0x3Fu) << 12) | ((bytes[2] & 0x3Fu) << 6) | (bytes[3] & 0x3Fu);
}

/// Appends `code_point` as UTF-8.
void append_utf8(char32_t code_point, std::string& out);

/// Number of code points in well-formed UTF-8.
std::size_t count_chars(std::string_view text);

/// Position of the first byte above 0x7F, or the size if there is none.
std::size_t find_non_ascii(std::string_view text, std::size_t from = 0);

/// Whether all of `text` is well-formed (Unicode 15, table 3-7).
bool is_valid_utf8(std::string_view text);

/// Position of the first byte that does not belong to a well-formed sequence; nothing if all of `text` is well-formed.
std::optional<std::size_t> find_invalid_utf8(std::string_view text);

/// `text` with U+FFFD for each maximal invalid part, like Python's `bytes.decode(errors="replace")`.
std::string replace_invalid_utf8(std::string_view text);

}  // namespace lockstep::text

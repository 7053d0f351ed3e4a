#include "lockstep/data/text/unicode/utf8.h"

#include <simdjson.h>

#include <cstring>

namespace lockstep::text {
namespace {

/// The highest bit of each of eight bytes.
constexpr std::uint64_t kHighBits = 0x8080808080808080u;

bool is_continuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

/// Bounds of the second byte of a sequence that starts with `first`; the length is 0 if none starts with it.
struct Lead {
  std::size_t length;
  unsigned char low;
  unsigned char high;
};

Lead lead_of(unsigned char first) {
  if (first < 0xC2) return {0, 0, 0};
  if (first < 0xE0) return {2, 0x80, 0xBF};
  if (first == 0xE0) return {3, 0xA0, 0xBF};
  if (first == 0xED) return {3, 0x80, 0x9F};
  if (first < 0xF0) return {3, 0x80, 0xBF};
  if (first == 0xF0) return {4, 0x90, 0xBF};
  if (first < 0xF4) return {4, 0x80, 0xBF};
  if (first == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

struct Sequence {
  std::size_t length;
  bool valid;
};

/// The sequence that starts at `position`: its length, or the length of the maximal part to replace.
Sequence sequence_at(const unsigned char* bytes, std::size_t size, std::size_t position) {
  const Lead lead = lead_of(bytes[position]);
  if (lead.length == 0) return {1, false};
  if (position + 1 >= size || bytes[position + 1] < lead.low || bytes[position + 1] > lead.high) return {1, false};
  for (std::size_t i = 2; i < lead.length; ++i) {
    if (position + i >= size || !is_continuation(bytes[position + i])) return {i, false};
  }
  return {lead.length, true};
}

}  // namespace

void append_utf8(char32_t code_point, std::string& out) {
  if (code_point < 0x80) {
    out.push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    out.push_back(static_cast<char>(0xC0 | (code_point >> 6)));
    out.push_back(static_cast<char>(0x80 | (code_point & 0x3F)));
  } else if (code_point < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | (code_point >> 12)));
    out.push_back(static_cast<char>(0x80 | ((code_point >> 6) & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code_point & 0x3F)));
  } else {
    out.push_back(static_cast<char>(0xF0 | (code_point >> 18)));
    out.push_back(static_cast<char>(0x80 | ((code_point >> 12) & 0x3F)));
    out.push_back(static_cast<char>(0x80 | ((code_point >> 6) & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code_point & 0x3F)));
  }
}

std::size_t count_chars(std::string_view text) {
  std::size_t count = 0;
  for (const char byte : text) count += !is_continuation(static_cast<unsigned char>(byte));
  return count;
}

std::size_t find_non_ascii(std::string_view text, std::size_t from) {
  std::size_t i = from;
  for (; i + 8 <= text.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, text.data() + i, sizeof(word));
    if ((word & kHighBits) != 0) break;
  }
  while (i < text.size() && static_cast<unsigned char>(text[i]) < 0x80) ++i;
  return i;
}

bool is_valid_utf8(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  for (std::size_t i = find_non_ascii(text); i < text.size(); i = find_non_ascii(text, i)) {
    const Sequence sequence = sequence_at(bytes, text.size(), i);
    if (!sequence.valid) return i;
    i += sequence.length;
  }
  return std::nullopt;
}

std::string replace_invalid_utf8(std::string_view text) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  std::string out;
  out.reserve(text.size() + text.size() / 8 + 8);
  std::size_t i = 0;
  while (i < text.size()) {
    if (bytes[i] < 0x80) {
      out.push_back(text[i++]);
      continue;
    }
    const Sequence sequence = sequence_at(bytes, text.size(), i);
    if (sequence.valid) {
      out.append(text, i, sequence.length);
    } else {
      append_utf8(kReplacementChar, out);
    }
    i += sequence.length;
  }
  return out;
}

}  // namespace lockstep::text

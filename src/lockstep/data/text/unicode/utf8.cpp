#include "lockstep/data/text/unicode/utf8.h"

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

/// An automaton over bytes without dependent branches: the state is the number of bits by which the next byte's row is
/// shifted, and the row contains the new state at that place (P. Vognsen, "Shift-based DFAs").
class Utf8Automaton {
 public:
  static constexpr std::uint64_t kRefused = 0;
  static constexpr std::uint64_t kBetween = 6;  // between two characters

  Utf8Automaton() {
    for (int byte = 0; byte < 256; ++byte) {
      for (const std::uint64_t state :
           {kBetween, kOneMore, kTwoMore, kThreeMore, kAfterE0, kAfterED, kAfterF0, kAfterF4}) {
        rows_[byte] |= next(state, static_cast<unsigned char>(byte)) << state;
      }
    }
  }

  std::uint64_t step(std::uint64_t state, char byte) const {
    return rows_[static_cast<unsigned char>(byte)] >> (state & 63);
  }
  static bool is(std::uint64_t state, std::uint64_t wanted) { return (state & 63) == wanted; }

 private:
  static constexpr std::uint64_t kOneMore = 12, kTwoMore = 18, kThreeMore = 24;
  static constexpr std::uint64_t kAfterE0 = 30, kAfterED = 36, kAfterF0 = 42, kAfterF4 = 48;

  static std::uint64_t next(std::uint64_t state, unsigned char byte) {
    const auto within = [&](unsigned char low, unsigned char high) { return byte >= low && byte <= high; };
    switch (state) {
      case kOneMore:
        return is_continuation(byte) ? kBetween : kRefused;
      case kTwoMore:
        return is_continuation(byte) ? kOneMore : kRefused;
      case kThreeMore:
        return is_continuation(byte) ? kTwoMore : kRefused;
      case kAfterE0:
        return within(0xA0, 0xBF) ? kOneMore : kRefused;
      case kAfterED:
        return within(0x80, 0x9F) ? kOneMore : kRefused;
      case kAfterF0:
        return within(0x90, 0xBF) ? kTwoMore : kRefused;
      case kAfterF4:
        return within(0x80, 0x8F) ? kTwoMore : kRefused;
      default:
        break;
    }
    if (byte < 0x80) return kBetween;
    if (byte == 0xE0) return kAfterE0;
    if (byte == 0xED) return kAfterED;
    if (byte == 0xF0) return kAfterF0;
    if (byte == 0xF4) return kAfterF4;
    const std::size_t length = lead_of(byte).length;
    return length == 2 ? kOneMore : length == 3 ? kTwoMore : length == 4 ? kThreeMore : kRefused;
  }

  std::uint64_t rows_[256] = {};
};

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

bool is_valid_utf8(std::string_view text) {
  static const Utf8Automaton automaton;
  constexpr std::size_t kStep = 32;
  std::uint64_t state = Utf8Automaton::kBetween;
  std::size_t i = 0;
  for (; i + kStep <= text.size(); i += kStep) {
    std::uint64_t words[4];
    std::memcpy(words, text.data() + i, sizeof(words));
    const bool ascii = ((words[0] | words[1] | words[2] | words[3]) & kHighBits) == 0;
    if (ascii && Utf8Automaton::is(state, Utf8Automaton::kBetween)) continue;
    for (std::size_t k = i; k < i + kStep; ++k) state = automaton.step(state, text[k]);
    if (Utf8Automaton::is(state, Utf8Automaton::kRefused)) return false;
  }
  for (; i < text.size(); ++i) state = automaton.step(state, text[i]);
  return Utf8Automaton::is(state, Utf8Automaton::kBetween);
}

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

#include "lockstep/data/text/encoders/byte_level.h"

#include "lockstep/data/text/unicode/utf8.h"

namespace lockstep::text {
namespace {

constexpr char32_t kFirstStandIn = 0x100;
constexpr std::size_t kStandIns = 68;

bool stands_for_itself(char32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

struct Tables {
  std::array<char32_t, 256> to_char;
  std::array<unsigned char, kStandIns> from_stand_in;

  Tables() {
    std::size_t next = 0;
    for (char32_t byte = 0; byte < 256; ++byte) {
      to_char[byte] = byte;
      if (stands_for_itself(byte)) continue;
      to_char[byte] = kFirstStandIn + static_cast<char32_t>(next);
      from_stand_in[next++] = static_cast<unsigned char>(byte);
    }
  }
};

const Tables& tables() {
  static const Tables made;
  return made;
}

}  // namespace

char32_t byte_to_char(unsigned char byte) { return tables().to_char[byte]; }

std::optional<unsigned char> char_to_byte(char32_t c) {
  if (c < 256) return stands_for_itself(c) ? std::optional<unsigned char>(static_cast<unsigned char>(c)) : std::nullopt;
  if (c < kFirstStandIn + kStandIns) return tables().from_stand_in[c - kFirstStandIn];
  return std::nullopt;
}

std::string to_byte_level(std::string_view bytes) {
  std::string token;
  for (const char byte : bytes) append_utf8(byte_to_char(static_cast<unsigned char>(byte)), token);
  return token;
}

std::string from_byte_level(std::string_view token) {
  std::string bytes;
  for (std::size_t at = 0; at < token.size();) {
    const auto byte = char_to_byte(decode_char(token.data(), &at));
    if (!byte) return std::string(token);
    bytes.push_back(static_cast<char>(*byte));
  }
  return bytes;
}

}  // namespace lockstep::text

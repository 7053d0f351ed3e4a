#include "lockstep/seeing/crc32c.h"

#include <array>

namespace lockstep {
namespace {

constexpr std::uint32_t kCastagnoli = 0x82f63b78;  // reflected

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? kCastagnoli : 0);
    table[byte] = value;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> kCrcTable = make_crc_table();

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t value = 0xffffffff;
  for (const char c : bytes) value = kCrcTable[(value ^ static_cast<unsigned char>(c)) & 0xff] ^ (value >> 8);
  return ~value;
}

}  // namespace lockstep

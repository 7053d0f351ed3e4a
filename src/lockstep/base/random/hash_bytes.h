#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lockstep/base/random/mix_bits.h"

namespace lockstep {

/// A 64-bit digest of bytes, at ten bytes a cycle or so: multiplications of 64 to 128 bits, in the manner of Wang Yi's
/// wyhash. Different bytes have equal digests with a probability of about 2^-64: it guards against mistakes, not
/// against malice. Equal on every machine of one byte order.
class BytesHash {
 public:
  static std::uint64_t of(const void* data, std::size_t bytes, std::uint64_t seed) noexcept {
    const auto* at = static_cast<const unsigned char*>(data);
    std::uint64_t state = fold(seed ^ kFirst, bytes ^ kSecond);
    if (bytes >= kStride) {
      std::uint64_t lanes[4] = {state, state ^ kFirst, state ^ kSecond, state ^ kThird};
      for (; bytes >= kStride; at += kStride, bytes -= kStride) {
        for (std::size_t i = 0; i < 4; ++i)
          lanes[i] = fold(word(at + 16 * i) ^ kFirst, word(at + 16 * i + 8) ^ lanes[i]);
      }
      for (const std::uint64_t lane : lanes) mix_into(state, lane);
    }
    for (; bytes >= 16; at += 16, bytes -= 16) state = fold(word(at) ^ kSecond, word(at + 8) ^ state);
    unsigned char rest[16] = {};
    if (bytes > 0) std::memcpy(rest, at, bytes);
    return mix_bits(fold(word(rest) ^ kThird, word(rest + 8) ^ state));
  }

 private:
  __extension__ using Wide = unsigned __int128;
  static constexpr std::size_t kStride = 64;
  static constexpr std::uint64_t kFirst = 0xa0761d6478bd642fULL;
  static constexpr std::uint64_t kSecond = 0xe7037ed1a0b428dbULL;
  static constexpr std::uint64_t kThird = 0x8ebc6af09c88c6e3ULL;

  static std::uint64_t fold(std::uint64_t a, std::uint64_t b) noexcept {
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }
  static std::uint64_t word(const unsigned char* at) noexcept {
    std::uint64_t value = 0;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
};

/// @param seed  what else the digest is of
inline std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed = 0) noexcept {
  return BytesHash::of(data, bytes, seed);
}

}  // namespace lockstep

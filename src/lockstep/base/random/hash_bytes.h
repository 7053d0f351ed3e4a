#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "lockstep/base/random/mix_bits.h"

namespace lockstep {

/// A 64-bit digest of bytes, at eight bytes a cycle or so: multiplications of 64 to 128 bits, in the manner of Wang
/// Yi's wyhash. Different bytes have equal digests with a probability of about 2^-64: it guards against mistakes, not
/// against malice. Equal on every machine of one byte order.
class BytesHash {
 public:
  static std::uint64_t of(const void* data, std::size_t bytes, std::uint64_t seed) noexcept {
    const auto* at = static_cast<const unsigned char*>(data);
    std::uint64_t state = fold(seed ^ kFirst, bytes ^ kSecond);
    if (bytes >= kStride) {
      // Folded in pairs, because to mix one after the other into the state took half of the time of 784 bytes.
      std::uint64_t a = state, b = state ^ kFirst, c = state ^ kSecond, d = state ^ kThird;
      for (; bytes >= kStride; at += kStride, bytes -= kStride) {
        a = fold(word(at) ^ kFirst, word(at + 8) ^ a);
        b = fold(word(at + 16) ^ kSecond, word(at + 24) ^ b);
        c = fold(word(at + 32) ^ kThird, word(at + 40) ^ c);
        d = fold(word(at + 48) ^ kFourth, word(at + 56) ^ d);
      }
      state = fold(a ^ kThird, b ^ kFourth) ^ fold(c ^ kFirst, d ^ kSecond);
    }
    for (; bytes >= 16; at += 16, bytes -= 16) state = fold(word(at) ^ kSecond, word(at + 8) ^ state);
    std::uint64_t first = 0, last = 0;  // of fewer than 16 bytes, which may be the same ones twice
    if (bytes >= 8) {
      first = word(at);
      last = word(at + bytes - 8);
    } else if (bytes >= 4) {
      first = half_word(at);
      last = half_word(at + bytes - 4);
    } else if (bytes > 0) {
      first = at[0] | std::uint64_t{at[bytes / 2]} << 8 | std::uint64_t{at[bytes - 1]} << 16;
    }
    return mix_bits(fold(first ^ kThird, last ^ state));
  }

 private:
  __extension__ using Wide = unsigned __int128;
  static constexpr std::size_t kStride = 64;
  static constexpr std::uint64_t kFirst = 0xa0761d6478bd642fULL;
  static constexpr std::uint64_t kSecond = 0xe7037ed1a0b428dbULL;
  static constexpr std::uint64_t kThird = 0x8ebc6af09c88c6e3ULL;
  static constexpr std::uint64_t kFourth = 0x589965cc75374cc3ULL;

  static std::uint64_t fold(std::uint64_t a, std::uint64_t b) noexcept {
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }
  static std::uint64_t half_word(const unsigned char* at) noexcept {
    std::uint32_t value = 0;
    std::memcpy(&value, at, sizeof(value));
    return value;
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

/// Its 16 hexadecimal digits.
std::string hash_text(const void* data, std::size_t bytes, std::uint64_t seed = 0);

}  // namespace lockstep

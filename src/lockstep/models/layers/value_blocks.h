#pragma once

#include <c10/util/BFloat16.h>

#include <cstdint>
#include <cstring>

namespace lockstep {

// A block has a constant length, so that the compiler turns the loop into vector code at -O2.
inline constexpr std::int64_t kValueBlock = 64;

// Blocks are copied through local arrays, which tell the compiler that input and output do not overlap partly. Values
// of bf16 become fp32.
template <typename T>
inline __attribute__((always_inline)) void load_block(const T* from, T (&values)[kValueBlock]) {
  std::memcpy(values, from, sizeof(values));
}
inline __attribute__((always_inline)) void load_block(const c10::BFloat16* from, float (&values)[kValueBlock]) {
  std::uint16_t halves[kValueBlock];
  std::uint32_t bits[kValueBlock];
  std::memcpy(halves, from, sizeof(halves));
  for (std::int64_t i = 0; i < kValueBlock; ++i) bits[i] = static_cast<std::uint32_t>(halves[i]) << 16;
  std::memcpy(values, bits, sizeof(values));
}

template <typename T>
inline __attribute__((always_inline)) void store_block(const T (&values)[kValueBlock], T* to) {
  std::memcpy(to, values, sizeof(values));
}
// Rounds to nearest, and to even if two are as near; a NaN stays one.
inline __attribute__((always_inline)) void store_block(const float (&values)[kValueBlock], c10::BFloat16* to) {
  std::uint32_t bits[kValueBlock];
  std::uint16_t halves[kValueBlock];
  std::memcpy(bits, values, sizeof(bits));
  for (std::int64_t i = 0; i < kValueBlock; ++i) {
    const std::uint32_t near = (bits[i] + 0x7fff + (bits[i] >> 16 & 1)) >> 16;
    const bool is_nan = (bits[i] & 0x7fffffff) > 0x7f800000;
    halves[i] = static_cast<std::uint16_t>(is_nan ? bits[i] >> 16 | 0x40 : near);
  }
  std::memcpy(static_cast<void*>(to), halves, sizeof(halves));
}

}  // namespace lockstep

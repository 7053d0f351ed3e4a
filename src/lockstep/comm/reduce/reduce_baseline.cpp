#include <array>
#include <cstddef>
#include <cstdint>

#include "lockstep/comm/reduce/reduce_table.h"

namespace lockstep::shm {
namespace {

constexpr std::size_t kVectorBytes = 16;

float to_float(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fU;
  const std::uint32_t mantissa = half & 0x3ffU;
  float value = 0;
  std::uint32_t bits = 0;
  if (exponent == 0) {  // zero and subnormal: mantissa * 2^-24, exact in fp32
    value = static_cast<float>(mantissa) * 5.9604644775390625e-8F;
    __builtin_memcpy(&bits, &value, 4);
    bits |= sign;
  } else if (exponent == 31) {  // infinity; NaN, made quiet
    bits = sign | 0x7f800000U | (mantissa << 13) | (mantissa != 0 ? 0x400000U : 0U);
  } else {
    bits = sign | ((exponent + 112) << 23) | (mantissa << 13);
  }
  __builtin_memcpy(&value, &bits, 4);
  return value;
}

// Rounds to the nearest value, ties to even.
std::uint16_t to_half(float value) {
  std::uint32_t bits = 0;
  __builtin_memcpy(&bits, &value, 4);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U | ((magnitude >> 13) & 0x3ffU));
  if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);  // 65520 and above round to infinity
  if (magnitude < 0x38800000U) {  // below 2^-14: adding 0.5 leaves mantissa * 2^-24, rounded, in the low bits
    float shifted = 0;
    __builtin_memcpy(&shifted, &magnitude, 4);
    shifted += 0.5F;
    std::uint32_t sum = 0;
    __builtin_memcpy(&sum, &shifted, 4);
    return static_cast<std::uint16_t>(sign | (sum - 0x3f000000U));
  }
  const std::uint32_t odd = (magnitude >> 13) & 1U;
  return static_cast<std::uint16_t>(sign | ((magnitude + 0xfffU + odd - 0x38000000U) >> 13));
}

template <class Accumulator>
void half_to_float(Accumulator& to, const std::byte* from) {
  for (std::size_t i = 0; i < kVectorBytes / 4; ++i) {
    std::uint16_t half = 0;
    __builtin_memcpy(&half, from + 2 * i, 2);
    to[i] = to_float(half);
  }
}

template <class Accumulator>
void float_to_half(std::byte* to, const Accumulator& from) {
  for (std::size_t i = 0; i < kVectorBytes / 4; ++i) {
    const std::uint16_t half = to_half(from[i]);
    __builtin_memcpy(to + 2 * i, &half, 2);
  }
}

#include "lockstep/comm/reduce/reduce_loops.inl"

}  // namespace

const ReduceTable* reduce_table_baseline() { return &kTable; }

}  // namespace lockstep::shm

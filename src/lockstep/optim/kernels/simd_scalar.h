#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace lockstep {

/// A "vector" of one element, with the interface of simd_avx2.h.
template <typename T>
struct ScalarSimd {
  using Element = T;
  using V = T;
  using Bits = std::uint16_t;
  static constexpr std::size_t kSize = 1;

  static V set(double x) { return static_cast<T>(x); }
  static V load(const T* p) { return *p; }
  static V load(const T* p, std::size_t) { return *p; }
  static void store(T* p, V v) { *p = v; }
  static void store(T* p, V v, std::size_t) { *p = v; }
  static V add(V a, V b) { return a + b; }
  static V sub(V a, V b) { return a - b; }
  static V mul(V a, V b) { return a * b; }
  static V div(V a, V b) { return a / b; }
  static V fma(V a, V b, V c) { return a * b + c; }
  static V sqrt(V a) { return std::sqrt(a); }
  static V abs(V a) { return std::abs(a); }
  static V max(V a, V b) { return std::isnan(a) || a > b ? a : b; }
  static V rounded(V a) {
    volatile T kept = a;
    return kept;
  }

  static Bits load_bits(const std::uint16_t* p) { return *p; }
  static Bits load_bits(const std::uint16_t* p, std::size_t) { return *p; }
  static void store_bits(std::uint16_t* p, Bits bits) { *p = bits; }
  static void store_bits(std::uint16_t* p, Bits bits, std::size_t) { *p = bits; }

  static bool differ(Bits a, Bits b) { return a != b; }

  static V from_bfloat16(Bits half) {
    const std::uint32_t bits = static_cast<std::uint32_t>(half) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  static Bits to_bfloat16(V value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    if (std::isnan(value)) return static_cast<Bits>(bits >> 16 | 0x40);
    return static_cast<Bits>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
  // Exact: a half is an 11-bit integer times a power of two.
  static V from_half(Bits bits) {
    const int exponent = bits >> 10 & 0x1f;
    const int fraction = bits & 0x3ff;
    float magnitude;
    if (exponent == 0x1f) {
      magnitude = fraction == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
    } else if (exponent == 0) {
      magnitude = std::ldexp(static_cast<float>(fraction), -24);
    } else {
      magnitude = std::ldexp(static_cast<float>(fraction + 0x400), exponent - 25);
    }
    return std::copysign(magnitude, bits & 0x8000 ? -1.0F : 1.0F);
  }
  static Bits to_half(V value) {
    const std::uint32_t sign = std::signbit(value) ? 0x8000 : 0;
    const float magnitude = std::abs(value);
    if (std::isnan(value)) return static_cast<Bits>(sign | 0x7e00);
    if (magnitude >= 65520.0F) return static_cast<Bits>(sign | 0x7c00);  // rounds to infinity
    int exponent = -14;
    if (magnitude > 0) std::frexp(magnitude, &exponent);
    const int unit = exponent < -13 ? -24 : exponent - 11;  // exponent of the last place
    const auto units = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(magnitude, -unit)));
    // The leading one of a normal number adds 1 to the exponent field, and so does a carry out of the fraction.
    return static_cast<Bits>(sign | ((static_cast<std::uint32_t>(unit + 24) << 10) + units));
  }

  /// The accumulator of sums, in double.
  struct Sum {
    double value = 0;
    void add_square(V v) { value += static_cast<double>(v) * static_cast<double>(v); }
    void store(double* lanes) const { *lanes = value; }
  };
};

}  // namespace lockstep

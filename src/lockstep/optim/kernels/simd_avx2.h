#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace lockstep {

/// Vectors of 256 bits. Loads and stores with a count touch only the first n elements; such a load makes the others
/// zero. Only for code that is compiled for AVX2, FMA and F16C.
template <typename T>
struct Avx2Simd;

template <>
struct Avx2Simd<float> {
  using Element = float;
  using V = __m256;
  using Bits = __m128i;  ///< eight 16-bit numbers as memory holds them
  static constexpr std::size_t kSize = 8;

  static V set(double x) { return _mm256_set1_ps(static_cast<float>(x)); }
  static V load(const float* p) { return _mm256_loadu_ps(p); }
  static V load(const float* p, std::size_t n) { return _mm256_maskload_ps(p, mask(n)); }
  static void store(float* p, V v) { _mm256_storeu_ps(p, v); }
  static void store(float* p, V v, std::size_t n) { _mm256_maskstore_ps(p, mask(n), v); }
  static V add(V a, V b) { return _mm256_add_ps(a, b); }
  static V sub(V a, V b) { return _mm256_sub_ps(a, b); }
  static V mul(V a, V b) { return _mm256_mul_ps(a, b); }
  static V div(V a, V b) { return _mm256_div_ps(a, b); }
  static V fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
  static V sqrt(V a) { return _mm256_sqrt_ps(a); }
  static V abs(V a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), a); }
  /// NaN if `a` or `b` is NaN. The instruction alone returns `b` in that case.
  static V max(V a, V b) { return _mm256_blendv_ps(_mm256_max_ps(a, b), a, _mm256_cmp_ps(a, a, _CMP_UNORD_Q)); }
  /// Keeps the compiler from joining a product with the addition that follows.
  static V rounded(V a) {
    asm("" : "+x"(a));
    return a;
  }

  static Bits load_bits(const std::uint16_t* p) { return _mm_loadu_si128(reinterpret_cast<const Bits*>(p)); }
  static Bits load_bits(const std::uint16_t* p, std::size_t n) {
    std::uint16_t part[kSize] = {};
    std::memcpy(part, p, n * sizeof *p);
    return load_bits(part);
  }
  static void store_bits(std::uint16_t* p, Bits bits) { _mm_storeu_si128(reinterpret_cast<Bits*>(p), bits); }
  static void store_bits(std::uint16_t* p, Bits bits, std::size_t n) {
    std::uint16_t part[kSize];
    store_bits(part, bits);
    std::memcpy(p, part, n * sizeof *p);
  }
  static bool differ(Bits a, Bits b) { return _mm_movemask_epi8(_mm_cmpeq_epi16(a, b)) != 0xffff; }
  static V from_bfloat16(Bits bits) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16)); }
  static Bits to_bfloat16(V v) {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i near = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i high = _mm256_srli_epi32(_mm256_blendv_epi8(near, quiet, nan), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
  }
  static V from_half(Bits bits) { return _mm256_cvtph_ps(bits); }
  static Bits to_half(V v) { return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT); }

  struct Sum {
    // Written out: the compiler builds implicit constructors for the instruction set of the command line.
    Sum() : low(_mm256_setzero_pd()), high(_mm256_setzero_pd()) {}
    void add_square(V v) {
      const __m256d a = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
      const __m256d b = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
      low = _mm256_fmadd_pd(a, a, low);
      high = _mm256_fmadd_pd(b, b, high);
    }
    void store(double* lanes) const {
      _mm256_storeu_pd(lanes, low);
      _mm256_storeu_pd(lanes + 4, high);
    }
    __m256d low;
    __m256d high;
  };

 private:
  static __m256i mask(std::size_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
};

template <>
struct Avx2Simd<double> {
  using Element = double;
  using V = __m256d;
  static constexpr std::size_t kSize = 4;

  static V set(double x) { return _mm256_set1_pd(x); }
  static V load(const double* p) { return _mm256_loadu_pd(p); }
  static V load(const double* p, std::size_t n) { return _mm256_maskload_pd(p, mask(n)); }
  static void store(double* p, V v) { _mm256_storeu_pd(p, v); }
  static void store(double* p, V v, std::size_t n) { _mm256_maskstore_pd(p, mask(n), v); }
  static V add(V a, V b) { return _mm256_add_pd(a, b); }
  static V sub(V a, V b) { return _mm256_sub_pd(a, b); }
  static V mul(V a, V b) { return _mm256_mul_pd(a, b); }
  static V div(V a, V b) { return _mm256_div_pd(a, b); }
  static V fma(V a, V b, V c) { return _mm256_fmadd_pd(a, b, c); }
  static V sqrt(V a) { return _mm256_sqrt_pd(a); }
  static V abs(V a) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), a); }
  static V max(V a, V b) { return _mm256_blendv_pd(_mm256_max_pd(a, b), a, _mm256_cmp_pd(a, a, _CMP_UNORD_Q)); }
  static V rounded(V a) {
    asm("" : "+x"(a));
    return a;
  }

  struct Sum {
    Sum() : value(_mm256_setzero_pd()) {}
    void add_square(V v) { value = _mm256_fmadd_pd(v, v, value); }
    void store(double* lanes) const { _mm256_storeu_pd(lanes, value); }
    __m256d value;
  };

 private:
  static __m256i mask(std::size_t n) {
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(static_cast<long long>(n)), _mm256_setr_epi64x(0, 1, 2, 3));
  }
};

}  // namespace lockstep

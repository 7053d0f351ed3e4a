#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace lockstep {

/// Vectors of 512 bits, with the interface of simd_avx2.h. Only for code that is compiled for AVX-512 F, BW, DQ and VL.
template <typename T>
struct Avx512Simd;

template <>
struct Avx512Simd<float> {
  using Element = float;
  using V = __m512;
  using Bits = __m256i;
  static constexpr std::size_t kSize = 16;

  static V set(double x) { return _mm512_set1_ps(static_cast<float>(x)); }
  static V load(const float* p) { return _mm512_loadu_ps(p); }
  static V load(const float* p, std::size_t n) { return _mm512_maskz_loadu_ps(mask(n), p); }
  static void store(float* p, V v) { _mm512_storeu_ps(p, v); }
  static void store(float* p, V v, std::size_t n) { _mm512_mask_storeu_ps(p, mask(n), v); }
  static V add(V a, V b) { return _mm512_add_ps(a, b); }
  static V sub(V a, V b) { return _mm512_sub_ps(a, b); }
  static V mul(V a, V b) { return _mm512_mul_ps(a, b); }
  static V div(V a, V b) { return _mm512_div_ps(a, b); }
  static V fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
  static V sqrt(V a) { return _mm512_sqrt_ps(a); }
  static V abs(V a) { return _mm512_abs_ps(a); }
  static V max(V a, V b) { return _mm512_mask_mov_ps(_mm512_max_ps(a, b), _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), a); }
  static V rounded(V a) {
    asm("" : "+v"(a));
    return a;
  }

  static Bits load_bits(const std::uint16_t* p) { return _mm256_loadu_si256(reinterpret_cast<const Bits*>(p)); }
  static Bits load_bits(const std::uint16_t* p, std::size_t n) { return _mm256_maskz_loadu_epi16(mask(n), p); }
  static void store_bits(std::uint16_t* p, Bits bits) { _mm256_storeu_si256(reinterpret_cast<Bits*>(p), bits); }
  static void store_bits(std::uint16_t* p, Bits bits, std::size_t n) { _mm256_mask_storeu_epi16(p, mask(n), bits); }
  static bool differ(Bits a, Bits b) { return _mm256_cmpneq_epi16_mask(a, b) != 0; }
  static V from_bfloat16(Bits bits) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16)); }
  static Bits to_bfloat16(V v) {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i near = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    const __m512i chosen = _mm512_mask_mov_epi32(near, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), quiet);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(chosen, 16));
  }
  static V from_half(Bits bits) { return _mm512_cvtph_ps(bits); }
  static Bits to_half(V v) { return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT); }

  struct Sum {
    // Written out: the compiler builds implicit constructors for the instruction set of the command line.
    Sum() : low(_mm512_setzero_pd()), high(_mm512_setzero_pd()) {}
    void add_square(V v) {
      const __m512d a = _mm512_cvtps_pd(_mm512_castps512_ps256(v));
      const __m512d b = _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));
      low = _mm512_fmadd_pd(a, a, low);
      high = _mm512_fmadd_pd(b, b, high);
    }
    void store(double* lanes) const {
      _mm512_storeu_pd(lanes, low);
      _mm512_storeu_pd(lanes + 8, high);
    }
    __m512d low;
    __m512d high;
  };

 private:
  static __mmask16 mask(std::size_t n) { return static_cast<__mmask16>((1U << n) - 1); }
};

template <>
struct Avx512Simd<double> {
  using Element = double;
  using V = __m512d;
  static constexpr std::size_t kSize = 8;

  static V set(double x) { return _mm512_set1_pd(x); }
  static V load(const double* p) { return _mm512_loadu_pd(p); }
  static V load(const double* p, std::size_t n) { return _mm512_maskz_loadu_pd(mask(n), p); }
  static void store(double* p, V v) { _mm512_storeu_pd(p, v); }
  static void store(double* p, V v, std::size_t n) { _mm512_mask_storeu_pd(p, mask(n), v); }
  static V add(V a, V b) { return _mm512_add_pd(a, b); }
  static V sub(V a, V b) { return _mm512_sub_pd(a, b); }
  static V mul(V a, V b) { return _mm512_mul_pd(a, b); }
  static V div(V a, V b) { return _mm512_div_pd(a, b); }
  static V fma(V a, V b, V c) { return _mm512_fmadd_pd(a, b, c); }
  static V sqrt(V a) { return _mm512_sqrt_pd(a); }
  static V abs(V a) { return _mm512_abs_pd(a); }
  static V max(V a, V b) { return _mm512_mask_mov_pd(_mm512_max_pd(a, b), _mm512_cmp_pd_mask(a, a, _CMP_UNORD_Q), a); }
  static V rounded(V a) {
    asm("" : "+v"(a));
    return a;
  }

  struct Sum {
    Sum() : value(_mm512_setzero_pd()) {}
    void add_square(V v) { value = _mm512_fmadd_pd(v, v, value); }
    void store(double* lanes) const { _mm512_storeu_pd(lanes, value); }
    __m512d value;
  };

 private:
  static __mmask8 mask(std::size_t n) { return static_cast<__mmask8>((1U << n) - 1); }
};

}  // namespace lockstep

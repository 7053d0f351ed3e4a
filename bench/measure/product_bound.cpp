#include "bench/measure/product_bound.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace lockstep {
namespace {

#if defined(__x86_64__)

constexpr std::size_t kSums = 12;  // hides the latency: 4 or 5 cycles, two instructions in each
constexpr std::int64_t kTurns = 200'000;
using Sums = std::make_index_sequence<kSums>;

// Sums begin with different numbers and are written in the end, so that no compiler leaves arithmetic out.
template <std::size_t... kI>
[[gnu::target("avx512f")]] void multiply_fp32_512(float* out, std::index_sequence<kI...>) {
  const __m512 a = _mm512_set1_ps(0.5F), b = _mm512_set1_ps(0.25F);
  __m512 sums[kSums] = {_mm512_set1_ps(kI)...};
  for (std::int64_t turn = 0; turn < kTurns; ++turn) ((sums[kI] = _mm512_fmadd_ps(a, b, sums[kI])), ...);
  (_mm512_storeu_ps(out, _mm512_add_ps(_mm512_loadu_ps(out), sums[kI])), ...);
}

template <std::size_t... kI>
[[gnu::target("avx2,fma")]] void multiply_fp32_256(float* out, std::index_sequence<kI...>) {
  const __m256 a = _mm256_set1_ps(0.5F), b = _mm256_set1_ps(0.25F);
  __m256 sums[kSums] = {_mm256_set1_ps(kI)...};
  for (std::int64_t turn = 0; turn < kTurns; ++turn) ((sums[kI] = _mm256_fmadd_ps(a, b, sums[kI])), ...);
  (_mm256_storeu_ps(out, _mm256_add_ps(_mm256_loadu_ps(out), sums[kI])), ...);
}

template <std::size_t... kI>
[[gnu::target("avx512f,avx512bf16")]] void multiply_bf16_512(float* out, std::index_sequence<kI...>) {
  const __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5F), _mm512_set1_ps(0.25F));
  __m512 sums[kSums] = {_mm512_set1_ps(kI)...};
  for (std::int64_t turn = 0; turn < kTurns; ++turn) ((sums[kI] = _mm512_dpbf16_ps(sums[kI], a, a)), ...);
  (_mm512_storeu_ps(out, _mm512_add_ps(_mm512_loadu_ps(out), sums[kI])), ...);
}

// @param operations  of one instruction
double gflops(const std::function<void(float*)>& loop, int operations) {
  constexpr int kRepeats = 10;  // the fastest counts
  double least_s = 1e9;
  float sums[16] = {};
  for (int i = 0; i < kRepeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    loop(sums);
    least_s = std::min(least_s, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  volatile float result = sums[0];
  static_cast<void>(result);
  return static_cast<double>(kTurns * static_cast<std::int64_t>(kSums) * operations) / least_s / 1e9;
}

bool has_amx_bf16() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & (1U << 22)) != 0;
}

#endif

}  // namespace

ProductBound measure_product_bound() {
  ProductBound bound;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) {
    bound.fp32_gflops = gflops([](float* out) { multiply_fp32_512(out, Sums()); }, 2 * 16);
  } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    bound.fp32_gflops = gflops([](float* out) { multiply_fp32_256(out, Sums()); }, 2 * 8);
  }
  if (__builtin_cpu_supports("avx512bf16") && !has_amx_bf16()) {
    bound.bf16_gflops = gflops([](float* out) { multiply_bf16_512(out, Sums()); }, 2 * 32);
  }
#endif
  return bound;
}

}  // namespace lockstep

// Headers first: code after the pragma is compiled for AVX-512, and may run only on processors that have it.
#include <iterator>

#include "bench/workers/plain_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define LOCKSTEP_STORES_PAST_CACHES

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,prfchw"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,prfchw")
#endif

namespace lockstep::bench {
namespace {

constexpr std::size_t kVectorBytes = 64;
using FloatVector = __m512;
inline void store_past_caches(float* to, const FloatVector& vector) { _mm512_stream_ps(to, vector); }
inline void end_of_stores() { _mm_sfence(); }

#include "bench/workers/plain_loops.inl"

}  // namespace
}  // namespace lockstep::bench

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

namespace lockstep::bench {

std::vector<PlainLoop> avx512_loops() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return {std::begin(kLoops), std::end(kLoops)};
#endif
  return {};
}

}  // namespace lockstep::bench

// Headers first: code after the pragma is compiled for avx2, and may run only on processors that have it.
#include <array>
#include <cstddef>
#include <cstdint>

#include "lockstep/comm/reduce/reduce_table.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,f16c")
#endif

namespace lockstep::shm {
namespace {

constexpr std::size_t kVectorBytes = 32;

inline void half_to_float(__m256& to, const std::byte* from) {
  to = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

inline void float_to_half(std::byte* to, const __m256& from) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm256_cvtps_ph(from, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

#include "lockstep/comm/reduce/reduce_loops.inl"

}  // namespace
}  // namespace lockstep::shm

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace lockstep::shm {
const ReduceTable* reduce_table_avx2() { return &kTable; }
}  // namespace lockstep::shm

#else

namespace lockstep::shm {
const ReduceTable* reduce_table_avx2() { return nullptr; }
}  // namespace lockstep::shm

#endif

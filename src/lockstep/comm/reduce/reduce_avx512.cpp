// Headers first: code after the pragma is compiled for avx512, and may run only on processors that have it.
#include <array>
#include <cstddef>
#include <cstdint>

#include "lockstep/comm/reduce/reduce_table.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq")
#endif

namespace lockstep::shm {
namespace {

constexpr std::size_t kVectorBytes = 64;

inline void half_to_float(__m512& to, const std::byte* from) {
  to = _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

inline void float_to_half(std::byte* to, const __m512& from) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_maskz_cvtps_ph(0xffff, from, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
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
const ReduceTable* reduce_table_avx512() { return &kTable; }
}  // namespace lockstep::shm

#else

namespace lockstep::shm {
const ReduceTable* reduce_table_avx512() { return nullptr; }
}  // namespace lockstep::shm

#endif

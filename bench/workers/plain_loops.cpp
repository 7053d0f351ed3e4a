#include "bench/workers/plain_loops.h"

#include <iterator>

#if defined(__SSE__)
#include <xmmintrin.h>
#define LOCKSTEP_STORES_PAST_CACHES
#endif

namespace lockstep::bench {
namespace {

constexpr std::size_t kVectorBytes = 16;

#if defined(__SSE__)
using FloatVector = __m128;
inline void store_past_caches(float* to, FloatVector vector) { _mm_stream_ps(to, vector); }
inline void end_of_stores() { _mm_sfence(); }
#else
typedef float FloatVector __attribute__((vector_size(kVectorBytes)));  // NOLINT: an alias would drop the attribute
#endif

#include "bench/workers/plain_loops.inl"

}  // namespace

std::vector<PlainLoop> baseline_loops() { return {std::begin(kLoops), std::end(kLoops)}; }

const std::vector<PlainLoop>& plain_loops() {
  static const std::vector<PlainLoop> widest = avx512_loops().empty() ? baseline_loops() : avx512_loops();
  return widest;
}

}  // namespace lockstep::bench

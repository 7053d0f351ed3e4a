#include "bench/workers/plain_loops.h"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace lockstep::bench {
namespace {

constexpr std::size_t kLine = 16;  // floats in a cache line

struct Store {
  static void twice(float* line) {
    for (std::size_t i = 0; i < kLine; ++i) line[i] *= 2.0F;
  }
};

template <typename Way, std::size_t kStreams, std::size_t kLinesAhead>
void walk(float* data, std::size_t count) {
  const std::size_t run = count / kStreams / kLine * kLine;
  for (std::size_t i = 0; i < run; i += kLine) {
    for (std::size_t stream = 0; stream < kStreams; ++stream) {
      float* const line = data + stream * run + i;
      if (kLinesAhead > 0) __builtin_prefetch(line + kLinesAhead * kLine, /*write=*/1);
      Way::twice(line);
    }
  }
  for (std::size_t i = kStreams * run; i < count; ++i) data[i] *= 2.0F;
}

#if defined(__SSE__)
struct BypassCaches {
  static void twice(float* line) {
    for (std::size_t i = 0; i < kLine; i += 4) {
      const __m128 vector = _mm_load_ps(line + i);
      _mm_stream_ps(line + i, _mm_add_ps(vector, vector));
    }
  }
};

template <std::size_t kStreams>
void walk_past_caches(float* data, std::size_t count) {
  walk<BypassCaches, kStreams, 0>(data, count);
  _mm_sfence();
}
#endif

}  // namespace

const std::vector<PlainLoop>& plain_loops() {
  static const std::vector<PlainLoop> all = {
    walk<Store, 1, 0>,
    walk<Store, 1, 16>,
    walk<Store, 2, 0>,
    walk<Store, 2, 16>,
    walk<Store, 4, 0>,
    walk<Store, 4, 8>,
#if defined(__SSE__)
    walk_past_caches<1>,
    walk_past_caches<2>,
#endif
  };
  return all;
}

}  // namespace lockstep::bench

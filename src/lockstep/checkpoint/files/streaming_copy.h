#pragma once

#include <cstddef>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace lockstep {

/// Copies memory that will not be read soon. If the processor can, it bypasses the cache, so that the destination is
/// not read first and the cache keeps its content. The ranges must not overlap.
/// @param to  at a multiple of 16 bytes
inline void streaming_copy(void* to, const void* from, std::size_t bytes) {
  auto* out = static_cast<char*>(to);
  const auto* in = static_cast<const char*>(from);
#ifdef __SSE2__
  constexpr std::size_t kPage = 4096, kLine = 64;
  constexpr std::size_t kBlock = 4 * kPage;  // copied side by side: a single stream does not saturate the memory
  const auto copy_line = [](char* line_to, const char* line_from) {
    _mm_prefetch(line_from + 2 * kLine, _MM_HINT_T0);  // never faults
    for (std::size_t i = 0; i < kLine; i += sizeof(__m128i)) {
      const __m128i value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(line_from + i));
      _mm_stream_si128(reinterpret_cast<__m128i*>(line_to + i), value);
    }
  };
  for (; bytes >= kBlock; bytes -= kBlock, out += kBlock, in += kBlock) {
    for (std::size_t line = 0; line < kPage; line += kLine) {
      for (std::size_t page = 0; page < kBlock; page += kPage) copy_line(out + page + line, in + page + line);
    }
  }
  _mm_sfence();
#endif
  if (bytes > 0) std::memcpy(out, in, bytes);
}

}  // namespace lockstep

// The loops of plain_loops.h for one width of vectors, compiled several times: the including file sets the target and
// defines kVectorBytes and FloatVector, and if it defines LOCKSTEP_STORES_PAST_CACHES also `store_past_caches` and
// `end_of_stores`. No inline functions of headers are used in here: the linker could take their copy for all callers.

constexpr std::size_t kLine = 16;  // floats in a cache line
constexpr std::size_t kWidth = kVectorBytes / sizeof(float);

// Doubles a cache line. Fetches the line so many lines ahead; 0: fetches nothing.
template <bool kInPlace, bool kPastCaches, std::size_t kLinesAhead>
inline void double_line(const float* from, float* to) {
  if (kLinesAhead > 0) {
    if (!kInPlace) __builtin_prefetch(from + kLinesAhead * kLine);
    if (!kPastCaches) __builtin_prefetch(to + kLinesAhead * kLine, /*write=*/1);
  }
  for (std::size_t lane = 0; lane < kLine; lane += kWidth) {
    FloatVector vector;
    __builtin_memcpy(&vector, from + lane, kVectorBytes);
    vector = vector + vector;
    if constexpr (kPastCaches) {
      store_past_caches(to + lane, vector);
    } else {
      __builtin_memcpy(to + lane, &vector, kVectorBytes);
    }
  }
}

// No line behind the end is fetched: an all-reduce does not know which memory the next one works on.
template <bool kInPlace, bool kPastCaches, std::size_t kStreams, std::size_t kLinesAhead>
void walk(const float* from, float* to, std::size_t count) {
  const std::size_t run = count / kStreams / kLine * kLine;
  const std::size_t fetching = run - (run < kLinesAhead * kLine ? run : kLinesAhead * kLine);
  for (std::size_t i = 0; i < fetching; i += kLine) {
    for (std::size_t at = i; at < kStreams * run; at += run) {
      double_line<kInPlace, kPastCaches, kLinesAhead>(from + at, to + at);
    }
  }
  for (std::size_t i = fetching; i < run; i += kLine) {
    for (std::size_t at = i; at < kStreams * run; at += run) double_line<kInPlace, kPastCaches, 0>(from + at, to + at);
  }
  for (std::size_t i = kStreams * run; i < count; ++i) to[i] = from[i] * 2.0F;
  if constexpr (kPastCaches) end_of_stores();
}

// Constant, so that nothing of this target runs before the processor was asked.
constexpr PlainLoop kLoops[] = {
    {"in place", true, walk<true, false, 1, 0>},
    {"in place, prefetch", true, walk<true, false, 1, 16>},
    {"in place, 2 streams", true, walk<true, false, 2, 0>},
    {"in place, 2 streams, prefetch", true, walk<true, false, 2, 16>},
    {"in place, 4 streams", true, walk<true, false, 4, 0>},
    {"in place, 4 streams, prefetch", true, walk<true, false, 4, 8>},
    {"apart", false, walk<false, false, 1, 0>},
    {"apart, 4 streams, prefetch", false, walk<false, false, 4, 8>},
#if defined(LOCKSTEP_STORES_PAST_CACHES)
    {"in place, past the caches", true, walk<true, true, 1, 0>},
    {"in place, 2 streams, past the caches", true, walk<true, true, 2, 0>},
    {"apart, past the caches", false, walk<false, true, 1, 0>},
    {"apart, 2 streams, prefetch, past the caches", false, walk<false, true, 2, 16>},
    {"apart, 4 streams, past the caches", false, walk<false, true, 4, 0>},
#endif
};

#pragma once

#include <cstddef>
#include <vector>

namespace lockstep::bench {

/// A loop that reads each of `count` floats once and writes its double once: the least that a rank does for an
/// all-reduce of as many floats, since it reads its share of all ranks' tensors and writes the sums there.
struct PlainLoop {
  const char* name = "";
  bool in_place = true;  ///< `from` and `to` are one; otherwise they do not overlap
  /// @param from, to  aligned to 64 bytes
  void (*run)(const float* from, float* to, std::size_t count) = nullptr;
};

/// The loops with the widest vectors of this processor. They have one stream or several, work in place or not, with and
/// without prefetch, and store into the caches or past them. The fastest depends on the processor and the size.
const std::vector<PlainLoop>& plain_loops();

/// The loops for any processor, and those with AVX-512: none if the processor or the compiler's target lacks it.
std::vector<PlainLoop> baseline_loops();
std::vector<PlainLoop> avx512_loops();

}  // namespace lockstep::bench

#pragma once

#include <cstddef>
#include <vector>

namespace lockstep::bench {

/// Doubles `count` floats in place. @param data  aligned to 64 bytes
using PlainLoop = void (*)(float* data, std::size_t count);

/// Loops that read and write each float once: the least that a rank does for an all-reduce of as many floats, since it
/// reads its share of all ranks' tensors and writes the sums there. They have one stream or several, with and without
/// prefetch, and stores that bypass the caches. The fastest depends on the processor and the size.
const std::vector<PlainLoop>& plain_loops();

}  // namespace lockstep::bench

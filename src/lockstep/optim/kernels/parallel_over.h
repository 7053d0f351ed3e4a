#pragma once

#include <cstdint>
#include <functional>

namespace lockstep {

/// Runs `body(begin, end)` over parts that cover [0, n): on LibTorch's intra-op threads if more than one is set, else
/// in this thread. A part has at least `grain` elements, if n is that large. `body` may use pointers, but no tensors.
void parallel_over(std::int64_t n, std::int64_t grain, const std::function<void(std::int64_t, std::int64_t)>& body);

}  // namespace lockstep

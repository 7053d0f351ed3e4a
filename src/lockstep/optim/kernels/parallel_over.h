#pragma once

#include <cstdint>
#include <functional>

namespace lockstep {

/// Runs `body(begin, end)` over parts of [0, n) that cover it, on LibTorch's intra-op threads where more than one is
/// set, in this thread else. A part has at least `grain` elements, as far as there are that many. `body` must not use
/// tensors: pointers only.
void parallel_over(std::int64_t n, std::int64_t grain, const std::function<void(std::int64_t, std::int64_t)>& body);

}  // namespace lockstep

// Compiled with OpenMP: without it LibTorch's at::parallel_for is a plain call.
#include "lockstep/optim/kernels/parallel_over.h"

#include <ATen/Parallel.h>

namespace lockstep {

void parallel_over(std::int64_t n, std::int64_t grain, const std::function<void(std::int64_t, std::int64_t)>& body) {
  at::parallel_for(0, n, grain, [&](std::int64_t begin, std::int64_t end) { body(begin, end); });
}

}  // namespace lockstep

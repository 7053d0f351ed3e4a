#pragma once

#include <c10/util/BFloat16.h>

#include <cstdint>

namespace lockstep {

/// dx[i] = dy[i] · (Φ(x[i]) + x[i] · φ(x[i])), the gradient of GELU, where Φ is the normal distribution and φ its
/// density (Hendrycks and Gimpel, 2016, arXiv:1606.08415). Computed in fp32: the factor has an error of at most 4e-7,
/// and the result is rounded once. On LibTorch's intra-op threads, with the same bits for every number of them.
void gelu_gradients(const c10::BFloat16* x, const c10::BFloat16* dy, c10::BFloat16* dx, std::int64_t count);

}  // namespace lockstep

#pragma once

#include <c10/util/BFloat16.h>

#include <cstdint>

namespace lockstep {

/// One draw of dropout. The seed and a value's position alone decide whether it stays, so nothing is stored.
struct DropoutDraw {
  std::uint64_t seed = 0;
  double p = 0;  ///< share of values that become zero, in [0, 1]
};

/// out[i] = x[i] / (1 - p), or 0 where the draw drops position i. `out` may be `x`.
void drop_values(const float* x, float* out, std::int64_t count, DropoutDraw draw);
void drop_values(const double* x, double* out, std::int64_t count, DropoutDraw draw);
void drop_values(const c10::BFloat16* x, c10::BFloat16* out, std::int64_t count, DropoutDraw draw);

/// out[i] = residual[i] + the result of drop_values for x[i], which is not rounded to bf16 before it is added.
void drop_and_add_values(const float* x, const float* residual, float* out, std::int64_t count, DropoutDraw draw);
void drop_and_add_values(const double* x, const double* residual, double* out, std::int64_t count, DropoutDraw draw);
void drop_and_add_values(const c10::BFloat16* x, const float* residual, float* out, std::int64_t count,
                         DropoutDraw draw);

}  // namespace lockstep

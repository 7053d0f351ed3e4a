#pragma once

#include <torch/torch.h>

#include <cmath>

#include "lockstep/optim/kernels/kernels.h"

namespace lockstep {

/// True if the kernels of LibTorch and Lockstep both round a product and its sum once; results are then equal to the
/// bit. LibTorch rounds twice with ATEN_CPU_CAPABILITY=default, and Lockstep without AVX2. LibTorch's optimizers round
/// in other places from version 2 on.
inline bool same_rounding() {
  if (TORCH_VERSION_MAJOR > 1) return false;
  const float a = 1.0F + 0x1p-12F;
  const at::Tensor sum = torch::full({64}, -1.0F).add(torch::full({64}, a), a);
  return widest_instruction_set() != InstructionSet::Baseline && sum[0].item<float>() == std::fma(a, a, -1.0F);
}

/// Largest difference of any element, relative to the largest element: 0 for equal bits.
inline double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return INFINITY;
  if (a.numel() == 0 || torch::equal(a, b)) return 0;
  const double difference = ((a - b).abs().max() / b.abs().max()).item<double>();
  return std::isnan(difference) ? INFINITY : difference;
}

}  // namespace lockstep

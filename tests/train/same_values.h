// Equality for tensors of any dtype: LibTorch's own `equal` does not support half-precision complex numbers.
#pragma once

#include <torch/torch.h>

namespace lockstep {

/// Equal dtypes, sizes and values.
inline bool same_values(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type()) return false;
  const auto wide = [](const at::Tensor& tensor) {
    return tensor.scalar_type() == at::kComplexHalf ? tensor.to(at::kComplexFloat) : tensor;
  };
  return wide(a).equal(wide(b));
}

}  // namespace lockstep

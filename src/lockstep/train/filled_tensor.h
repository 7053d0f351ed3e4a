#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep {

/// A tensor of `value` throughout, for any dtype that LibTorch has: at::full and at::cat do not know all of them, but
/// copies do.
at::Tensor filled_tensor(at::IntArrayRef sizes, double value, const at::TensorOptions& options);

/// Copies `tensor` to the beginning of `place`, which is as large in every dimension or larger.
void put_into(const at::Tensor& place, const at::Tensor& tensor);

}  // namespace lockstep

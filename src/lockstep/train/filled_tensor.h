#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep {

/// A tensor filled with `value`, for any dtype of LibTorch: at::full and at::cat do not support all of them, but copies
/// do.
at::Tensor filled_tensor(at::IntArrayRef sizes, double value, const at::TensorOptions& options);

/// Copies `tensor` to the beginning of `place`, which is at least as large in every dimension.
void put_into(const at::Tensor& place, const at::Tensor& tensor);

}  // namespace lockstep

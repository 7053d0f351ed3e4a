#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lockstep {

/// The part of `memory` from element `offset` on, as a tensor of these sizes and strides whose storage is that part
/// alone; it keeps `memory`. LibTorch's archives write the whole storage of a tensor: the file of one layer would hold
/// all of `memory` if its parameters were plain views.
at::Tensor memory_piece(const at::Tensor& memory, std::int64_t offset, at::IntArrayRef sizes, at::IntArrayRef strides);
/// The same, contiguous.
at::Tensor memory_piece(const at::Tensor& memory, std::int64_t offset, at::IntArrayRef sizes);

}  // namespace lockstep

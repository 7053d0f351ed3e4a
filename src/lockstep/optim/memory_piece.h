#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lockstep {

/// The part of `memory` that starts at element `offset`, as a tensor of these sizes and strides. The tensor's storage
/// is only that part; it keeps `memory` alive. LibTorch's archives write the whole storage of a tensor, so with plain
/// views the file of one layer would hold all of `memory`.
at::Tensor memory_piece(const at::Tensor& memory, std::int64_t offset, at::IntArrayRef sizes, at::IntArrayRef strides);
/// As above, with contiguous strides.
at::Tensor memory_piece(const at::Tensor& memory, std::int64_t offset, at::IntArrayRef sizes);

}  // namespace lockstep

#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

namespace lockstep {

/// The memory layout of a weight matrix: LibTorch's linear layers hold [out, in], GPT-2's hold [in, out].
enum class WeightLayout { OutIn, InOut };

/// Computes x · weightᵀ + bias, or x · weight + bias. Backward adds to the parameters' gradients in place if it may
/// (see gradient_in_place); otherwise it does what LibTorch does.
/// @param x  [rows, in]
/// @param bias  may be undefined
at::Tensor dense(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, WeightLayout layout);

/// The products of x with three matrices [out, in] beside each other, [rows, 3 out], in one step of the graph: backward
/// adds up the three gradients of x as it multiplies. Only for x with can_take_shortcuts(x).
at::Tensor dense_beside(const at::Tensor& x, const std::array<at::Tensor, 3>& weights,
                        const std::array<at::Tensor, 3>& biases);

/// Rows of `weight`, as LibTorch's `embedding`. If backward may add to the gradient in place, it touches only the rows
/// that were read.
/// @param padding_idx  the row that gets no gradient; -1: every row gets one
at::Tensor embed(const at::Tensor& weight, const at::Tensor& ids, std::int64_t padding_idx);

/// True if gradients may be added in place and other shortcuts of a CPU may be taken: `x` is on a CPU, in fp32 or fp64,
/// and autocast, which casts operators' inputs one by one, is off.
bool can_take_shortcuts(const at::Tensor& x);

}  // namespace lockstep

#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

namespace lockstep {

/// How a matrix of weights lies in memory: LibTorch's linear layers hold [out, in], GPT-2's hold [in, out].
enum class WeightLayout { OutIn, InOut };

/// x · weightᵀ + bias, or x · weight + bias. Its backward adds to the parameters' gradients in place where it may (see
/// gradient_in_place); in all else it is LibTorch's.
/// @param x  [rows, in]
/// @param bias  may be undefined
at::Tensor dense(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, WeightLayout layout);

/// The products of x with three matrices [out, in] beside each other, [rows, 3 out], in one step of the graph: backward
/// adds the three gradients of x up as it multiplies. For x on which shortcuts can be taken (see below).
at::Tensor dense_beside(const at::Tensor& x, const std::array<at::Tensor, 3>& weights,
                        const std::array<at::Tensor, 3>& biases);

/// Rows of `weight`, as LibTorch's `embedding`. Its backward touches only the rows that were read, where it may add to
/// the gradient in place.
/// @param padding_idx  the row that gets no gradient; -1 for none
at::Tensor embed(const at::Tensor& weight, const at::Tensor& ids, std::int64_t padding_idx);

/// True where gradients may be added in place and other shortcuts of a CPU be taken: `x` is on one, in fp32 or fp64,
/// and autocast, which casts operators' inputs one by one, is off.
bool can_take_shortcuts(const at::Tensor& x);

}  // namespace lockstep

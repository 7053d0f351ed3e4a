#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>

namespace lockstep {

/// The memory layout of a weight matrix: LibTorch's linear layers hold [out, in], GPT-2's hold [in, out].
enum class WeightLayout { OutIn, InOut };

/// Computes x · weightᵀ + bias, or x · weight + bias. Backward adds to the parameters' gradients in place if it may
/// (see gradient_in_place); otherwise it does what LibTorch does. Under autocast in bf16 the products are in bf16, with
/// sums in fp32 inside of each, and the parameters and their gradients stay fp32.
/// @param x  [rows, in]
/// @param bias  may be undefined
at::Tensor dense(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, WeightLayout layout);

/// The products of x with three matrices [out, in] beside each other, [rows, 3 out], in one step of the graph: backward
/// adds up the three gradients of x as it multiplies. Only for x with a shortcut_type.
at::Tensor dense_beside(const at::Tensor& x, const std::array<at::Tensor, 3>& weights,
                        const std::array<at::Tensor, 3>& biases);

/// Rows of `weight`, as LibTorch's `embedding`. If backward may add to the gradient in place, it touches only the rows
/// that were read.
/// @param padding_idx  the row that gets no gradient; -1: every row gets one
at::Tensor embed(const at::Tensor& weight, const at::Tensor& ids, std::int64_t padding_idx);

/// The type in which our own functions compute for `x`: its own, if that is fp32 or fp64; bf16, if autocast computes in
/// bf16 and x is fp32 or bf16. Nothing, if LibTorch's operators must compute: on other devices and in other types.
std::optional<at::ScalarType> shortcut_type(const at::Tensor& x);

}  // namespace lockstep

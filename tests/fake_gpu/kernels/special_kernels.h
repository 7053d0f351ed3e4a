#pragma once

#include <ATen/ATen.h>

#include <tuple>

namespace fake_gpu {

/// LibTorch's own copy of bytes between memories, and the CPU's kernel on a stream for other layouts and types.
at::Tensor& copy_on_device(at::Tensor& self, const at::Tensor& source, bool non_blocking);
/// Dropout with the device's random numbers: the CPU's kernel takes those of the host.
std::tuple<at::Tensor, at::Tensor> dropout_on_device(const at::Tensor& input, double p, std::optional<bool> train);
/// Attention by products and a softmax: the fused kernels of devices have no counterpart.
std::int64_t attention_by_products(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                   const std::optional<at::Tensor>& mask, double dropout_p, bool is_causal,
                                   std::optional<double> scale, bool enable_gqa);

}  // namespace fake_gpu

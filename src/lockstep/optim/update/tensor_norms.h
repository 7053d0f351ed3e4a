#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep {

/// The norms of order `p` of each tensor. Those of one device are computed together, and the host waits for the device
/// once.
std::vector<double> norms_of(const std::vector<at::Tensor>& tensors, double p);

/// Whether all elements of all tensors are finite; waits as norms_of.
bool are_finite(const std::vector<at::Tensor>& tensors);

/// Multiplies all tensors in place, by one operation for each device and dtype.
void scale_tensors(const std::vector<at::Tensor>& tensors, double factor);

}  // namespace lockstep

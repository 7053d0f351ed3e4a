#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <vector>

#include "lockstep/replicas/worker_threads.h"

namespace lockstep {

/// The gradients of one parameter to be added up.
struct GradientSum {
  at::Tensor target;                ///< becomes the sum; undefined: the first source becomes it
  std::vector<at::Tensor> sources;  ///< added in this order, so that each run gives the same result
  bool is_shared = false;           ///< others may hold `target`'s memory, so the sum is a new tensor
  c10::Device device{c10::kCPU};    ///< device of the sum
};

/// Adds up each of `sums`. On the CPU all members of the team do so at once, and each takes an equal share of all
/// elements rather than of all tensors, because one embedding may be larger than all layers; sources on other devices
/// are copied over first, one copy per device. On a device the calling thread does it (device_sum.h).
/// @return  bytes of the sources
std::int64_t add_gradients(WorkerThreads& team, std::vector<GradientSum>& sums);

}  // namespace lockstep

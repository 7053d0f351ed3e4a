#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <vector>

#include "lockstep/replicas/worker_threads.h"

namespace lockstep {

/// The gradients of one parameter, to be added up.
struct GradientSum {
  at::Tensor target;                ///< becomes the sum; undefined: the first source is it
  std::vector<at::Tensor> sources;  ///< one after the other, so that the result is the same in each run
  bool is_shared = false;           ///< others may hold `target`'s memory: the sum is a new tensor
  c10::Device device{c10::kCPU};    ///< where the sum shall be
};

/// Adds up each of `sums`, on all members of the team at once: each takes an equal share of all elements, not of all
/// tensors, since one embedding may be larger than all layers. Sources on other devices are brought over first, all of
/// a device in one copy. @return  bytes of the sources
std::int64_t add_gradients(WorkerThreads& team, std::vector<GradientSum>& sums);

}  // namespace lockstep

// Times on devices, whose work ends later than the calls that ask for it.
#pragma once

#include <c10/core/Device.h>
#include <torch/cuda.h>

#include <algorithm>
#include <chrono>
#include <limits>

namespace lockstep {

/// Waits for all work of the device.
inline void wait_for_device(c10::Device device) {
  if (!device.is_cpu()) torch::cuda::synchronize(device.index());
}

/// The seconds of the fastest of some calls, each with its work on the device; one call before them warms up.
template <typename Body>
double best_seconds(c10::Device device, int calls, const Body& body) {
  body();
  wait_for_device(device);
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < calls; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    wait_for_device(device);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

}  // namespace lockstep

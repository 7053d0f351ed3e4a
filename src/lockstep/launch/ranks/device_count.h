#pragma once

namespace lockstep {

/// NVIDIA GPUs that a process started from here would see, limited by CUDA_VISIBLE_DEVICES: the devices in /dev that
/// may be opened; if there are none, as on WSL2, those of which the driver's management library knows. Found without
/// CUDA's libraries, which take seconds to load, and without CUDA, so that this process may fork others that use it.
int visible_gpus();

/// The devices of which NVML knows. 0 if there is no such library, or it does not answer.
int gpus_by_driver(const char* library);

}  // namespace lockstep

#pragma once

namespace lockstep {

/// NVIDIA GPUs that a process started from here would see: the devices in /dev, limited by CUDA_VISIBLE_DEVICES. Found
/// without CUDA's libraries, which take seconds to load.
int visible_gpus();

}  // namespace lockstep

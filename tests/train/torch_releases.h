#pragma once

#include <torch/version.h>

#include <string>

namespace lockstep {

/// LibTorch 1.13 has no product of fp16 matrices on the CPU; 2.6 and 2.15 have.
inline constexpr bool kHasFp16OnCpu = TORCH_VERSION_MAJOR >= 2;

/// Such as "2.15.": how the version begins of a PyTorch in Python that rounds where this LibTorch does.
inline const std::string kTorchRelease =
    std::to_string(TORCH_VERSION_MAJOR) + "." + std::to_string(TORCH_VERSION_MINOR) + ".";

}  // namespace lockstep

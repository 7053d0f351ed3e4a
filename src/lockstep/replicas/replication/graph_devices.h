#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <vector>

namespace lockstep {

/// Whether the graph behind `outputs` has a step that LibTorch's engine runs in the thread of `device`: one that takes
/// a gradient there.
bool reaches_device(const std::vector<at::Tensor>& outputs, c10::Device device);

}  // namespace lockstep

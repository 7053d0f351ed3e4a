#pragma once

#include <ATen/core/Generator.h>

#include "tests/fake_gpu/kernels/arguments.h"

namespace fake_gpu {

/// A generator of the host for one call, from the seed and offset of a device's generator, whose offset is advanced:
/// each device has random numbers of its own, as on a GPU, that a saved state brings back. They are other numbers than
/// a GPU's.
at::Generator generator_of_call(const c10::IValue& generator, c10::Device device);

}  // namespace fake_gpu

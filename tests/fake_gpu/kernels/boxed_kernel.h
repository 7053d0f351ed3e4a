#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace fake_gpu {

/// The kernel of an operator for CUDA tensors: the operator's kernel for the CPU, over the same bytes, behind what the
/// caller's stream has got so far and behind nothing else.
void by_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace fake_gpu

#pragma once

#include <optional>

#include "tests/fake_gpu/kernels/arguments.h"

namespace fake_gpu {

/// What an operator returns, known before it has computed anything.
struct PlannedOutputs {
  Values results;                ///< for the caller
  std::vector<at::Tensor> made;  ///< the new tensors among the results; undefined ones for those that are arguments
};

/// Nothing if the shapes of the results depend on values, or no kernel for shapes alone is known: then the host has to
/// wait.
std::optional<PlannedOutputs> plan_outputs(const c10::OperatorHandle& op, const Values& arguments, c10::Device device);

}  // namespace fake_gpu

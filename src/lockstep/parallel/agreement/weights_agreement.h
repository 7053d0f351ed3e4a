#pragma once

#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/detail/tensor/module_tensors.h"

namespace lockstep {

/// Checks that every rank's parameters have the same bits, by a digest of each; the message has 8 bytes per parameter.
/// Collective; all ranks hold the same number of parameters.
/// @throws Error  on every rank, naming the first parameter that differs and the rank where it differs
void check_equal_weights(Communicator& communicator, const std::vector<NamedTensor>& parameters);

}  // namespace lockstep

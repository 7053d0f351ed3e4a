#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace lockstep {

/// Named tensors of several samples; the first dimension of each is the batch.
using Batch = std::map<std::string, at::Tensor>;

}  // namespace lockstep

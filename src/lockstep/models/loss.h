#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "lockstep/models/model.h"

namespace lockstep {

/// Cross entropy, as PyTorch's `CrossEntropyLoss(reduction="sum")` with `ignore_index` -100.
/// @param scores  [n, classes]
/// @param labels  [n], int64; -100 counts for nothing
/// @param model   named in errors
/// @throws Error  if shapes differ, labels are not int64, or, on a CPU, a label is outside the head
LossSum cross_entropy_sum(const at::Tensor& scores, const at::Tensor& labels, const std::string& model);

}  // namespace lockstep

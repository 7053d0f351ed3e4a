#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "lockstep/models/model.h"

namespace lockstep {

/// The label of what counts for nothing.
constexpr std::int64_t kIgnoreIndex = -100;

/// Cross entropy, as PyTorch's `CrossEntropyLoss(reduction="sum")` with `ignore_index` of `kIgnoreIndex`.
/// @param scores  [n, classes]
/// @param labels  [n], int64; `kIgnoreIndex` counts for nothing
/// @param model   named in errors
/// @param smoothing  the part of each label that all classes share evenly (`label_smoothing`)
/// @throws Error  if shapes differ, labels are not int64, or, on a CPU, a label is outside the head
LossSum cross_entropy_sum(const at::Tensor& scores, const at::Tensor& labels, const std::string& model,
                          double smoothing = 0);

}  // namespace lockstep

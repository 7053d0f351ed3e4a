#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "lockstep/models/model.h"

namespace lockstep {

/// The label of tokens or samples that the loss leaves out.
constexpr std::int64_t kIgnoreIndex = -100;

/// Cross entropy, as PyTorch's `CrossEntropyLoss(reduction="sum")` with `ignore_index` of `kIgnoreIndex`.
/// @param scores  [n, classes]
/// @param labels  [n], int64; rows labelled `kIgnoreIndex` are left out
/// @param model   named in errors
/// @param smoothing  the part of each label that all classes share evenly (`label_smoothing`)
/// @throws Error  if shapes differ, if labels are not int64, or, on a CPU, if a label is outside the head
LossSum cross_entropy_sum(const at::Tensor& scores, const at::Tensor& labels, const std::string& model,
                          double smoothing = 0);

}  // namespace lockstep

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lockstep/tensor/batch.h"

namespace lockstep {

/// Named tensors of one sample, e.g. "images" [1, 28, 28] and "labels" [] (a scalar).
using Example = std::map<std::string, at::Tensor>;

/// Puts samples together to a batch. Runs in the loader's worker threads: a function of its arguments alone.
using Collate = std::function<Batch(std::vector<Example>)>;

/// The plain collate function: tensors of one name are stacked along a new first dimension.
/// @throws Error  that names the field and both samples where names, shapes or dtypes differ, or without any sample
Batch stack_examples(const std::vector<Example>& examples);

/// The number of samples of `batch`: the first dimension of its tensors; 0 without tensors.
/// @throws Error  if two tensors disagree, or one is a scalar
std::int64_t batch_size(const Batch& batch);

}  // namespace lockstep

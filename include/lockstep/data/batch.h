#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/detail/tensor/tensor_fields.h"
#include "lockstep/tensor/batch.h"

namespace lockstep {

/// Named tensors of one sample, e.g. "images" [1, 28, 28] and "labels" [] (a scalar).
using Example = TensorFields;

/// Combines samples into a batch. Runs in the loader's worker threads, so its result must depend on its argument alone.
using Collate = std::function<Batch(std::vector<Example>)>;

/// The default collate function: stacks tensors of one name along a new first dimension.
/// @throws Error  that names the field and both samples, if names, shapes or dtypes differ, or if `examples` is empty
Batch stack_examples(const std::vector<Example>& examples);

/// The number of samples in `batch`: the first dimension of its tensors; 0 if it has no tensors.
/// @throws Error  if two tensors disagree, or one is a scalar
std::int64_t batch_size(const Batch& batch);

}  // namespace lockstep

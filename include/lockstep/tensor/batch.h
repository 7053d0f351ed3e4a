#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "lockstep/detail/tensor/tensor_fields.h"

namespace lockstep {

/// Named tensors of several samples; the first dimension of each is the batch.
using Batch = TensorFields;

/// The tensor called `name`. `batch.at(name)` gives it, too; this function also says who needs it, and refuses a field
/// that holds no tensor.
/// @param where  who needs it, for the error
/// @throws Error  that names `name` and what `batch` has, if there is no such tensor
const at::Tensor& batch_field(const Batch& batch, const std::string& name, const std::string& where = "batch_field");

}  // namespace lockstep

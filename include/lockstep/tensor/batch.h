#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace lockstep {

/// Named tensors of several samples; the first dimension of each is the batch.
using Batch = std::map<std::string, at::Tensor>;

/// The tensor called `name`. `batch.at(name)` gives it, too, but its error says only "map::at".
/// @param where  who needs it, for the error
/// @throws Error  that names `name` and what `batch` has, if there is no such tensor
const at::Tensor& batch_field(const Batch& batch, const std::string& name, const std::string& where = "batch_field");

}  // namespace lockstep

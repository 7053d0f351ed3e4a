#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "lockstep/parallel/update/update_context.h"

namespace lockstep {

/// The optimizer's parameters that the update does not cover: each rank updates them by itself.
std::vector<at::Tensor> other_parameters(const UpdateContext& context);
/// Zeroes their gradients.
void zero_other_gradients(const UpdateContext& context);
/// Indices in `context.gradients` of these parameters, which the update covers.
std::vector<std::size_t> indices_of(const UpdateContext& context, const std::vector<at::Tensor>& parameters);
/// The same of all that the optimizer has and the update covers, in the optimizer's order.
std::vector<std::size_t> indices_of_optimizer(const UpdateContext& context);

}  // namespace lockstep

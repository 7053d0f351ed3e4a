#pragma once

#include <cstddef>
#include <vector>

#include "lockstep/parallel/fused/owned_gradients.h"
#include "lockstep/parallel/update/update_context.h"

namespace lockstep {

/// How messages reduce the gradients of this update. A backward that has started to reduce is not part of a join.
ReduceOp reduce_op_of(const UpdateContext& context);

/// Where this rank reads the average of all ranks' gradients in the bucket's elements that it owns: a source of sums,
/// and by what they are to be divided. After an agreement.
OwnedGradients owned_sum(const UpdateContext& context, std::size_t bucket);
/// The same for each bucket.
std::vector<OwnedGradients> owned_sums(const UpdateContext& context);

}  // namespace lockstep

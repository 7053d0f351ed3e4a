#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/parallel/fused/update_plan.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"

namespace lockstep {

/// One bucket of a fused update, on this rank.
struct FusedBucket {
  std::size_t index = 0;                ///< in GradientBuckets
  std::vector<std::size_t> parameters;  ///< indices into GradientBuckets' list
  std::vector<std::int64_t> offsets;    ///< of each parameter, in elements, in gradients and weights
  at::Tensor gradients;                 ///< flat
  std::vector<void*> gradients_of;      ///< element 0 by rank, if the gradients lie in memory that outlives the group
  at::Tensor sums;     ///< of all gradients, laid out as they are; undefined if only this rank needs its own
  at::Tensor weights;  ///< laid out as the gradients; the parameters are views of it
  Region own;          ///< what this rank updates
  Region filled;       ///< what this rank writes of its copy of weights that come from elsewhere
};

/// The buckets that hold nothing but contiguous fp32 or fp64 CPU parameters of the optimizer, as yet without weights
/// and region.
/// @throws Error  if the optimizer has none of the parameters in `gradients`
std::vector<FusedBucket> choose_fused_buckets(const GradientBuckets& gradients, const FlatOptimizer& optimizer,
                                              const Communicator& communicator);

/// Why `choose_fused_buckets` has chosen none.
std::string why_no_bucket(const GradientBuckets& gradients);

/// The place in `buckets` of the bucket that GradientBuckets counts as `index`.
std::size_t position_of(const std::vector<FusedBucket>& buckets, std::size_t index);

/// All buckets' parameters, in ascending order.
std::vector<std::size_t> parameters_of(const std::vector<FusedBucket>& buckets);

/// The place of the bucket's parameter `index` in its weights, as a tensor of these sizes.
at::Tensor weights_place(const FusedBucket& bucket, std::size_t index, at::IntArrayRef sizes);

/// Copies the bucket's weights, which ranks share, to memory of this rank, and moves its parameters there.
void leave_shared_weights(const FusedBucket& bucket, const GradientBuckets& gradients);

}  // namespace lockstep

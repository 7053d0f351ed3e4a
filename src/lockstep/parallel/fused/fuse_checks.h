#pragma once

#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/parallel/fuse_options.h"
#include "lockstep/parallel/fused/fused_bucket.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"

namespace lockstep {

/// The options, each in a line: ranks compare them.
std::vector<std::string> lines_of(const FuseOptions& options);

/// @return  why the ranks cannot share the work of this optimizer, else empty: it updates a parameter twice in a step,
/// as LibTorch's do if a parameter is listed twice, and a fused update updates each parameter once
std::string refusal_of_twice_listed(const FlatOptimizer& optimizer, const GradientBuckets& gradients);

/// @throws Error  on every rank, if `options.hybrid_shard` has another stage than 2, or if the ranks of some host would
/// not have one copy of the weights together
void check_hybrid_shard(const FuseOptions& options, const std::vector<FusedBucket>& buckets,
                        const GradientBuckets& gradients, Communicator& communicator);

/// Logs a warning if something beside a parameter refers to its memory, such as a view that the module keeps: weights
/// are about to move to other memory, and the view stays as it is. Counts owners of storages, so it reads no element.
void warn_of_kept_views(const std::vector<FusedBucket>& buckets, const GradientBuckets& gradients);

}  // namespace lockstep

#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/fused/fused_bucket.h"
#include "lockstep/parallel/fused/owned_gradients.h"
#include "lockstep/parallel/fused/update_plan.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"

namespace lockstep {

/// The norm of gradients of which each rank has a part, added up in the order of a process that has all of them
/// (GradientMemory): by blocks of kSumBlock elements of each parameter. The bits do not depend on the number of ranks.
/// Blocks that belong to two ranks are sent to all.
class WholeNorm {
 public:
  struct Gradients {
    const UpdatePlan& plan;
    const GradientBuckets& all;
    const std::vector<FusedBucket>& buckets;
    std::function<OwnedGradients(std::size_t bucket)> owned;  ///< this rank's part of a bucket, from one source
  };
  /// What `gradients` refers to must outlive this object.
  /// @param parameters  indices in `all`, in the order of addition; one that is listed twice counts twice
  WholeNorm(Gradients gradients, const std::vector<std::size_t>& parameters);

  /// Collective.
  double norm(Communicator& communicator);

 private:
  struct Block {
    std::size_t bucket = 0;  // in `buckets`
    std::size_t begin = 0, end = 0;
    bool is_cut = false;
  };

  void add_blocks(std::size_t bucket, std::size_t begin, std::size_t end);
  at::Tensor cut_blocks(const std::vector<OwnedGradients>& owned) const;

  Gradients gradients_;
  std::vector<Block> blocks_;
  std::int64_t num_cut_ = 0;
  bool any_double_ = false;
};

}  // namespace lockstep

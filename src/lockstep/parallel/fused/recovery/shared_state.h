#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/optim/update/fused_segment.h"
#include "lockstep/parallel/fused/fused_bucket.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"

namespace lockstep {

/// An optimizer's state of all ranks' elements, in memory that all ranks of a host share and that outlives their group.
class SharedState {
 public:
  /// @param optimizer  whole on each rank; must outlive this object
  SharedState(const FlatOptimizer& optimizer, const std::vector<FusedBucket>& buckets,
              const GradientBuckets& gradients);

  /// Lets the segment of `bucket`, a place in the list, have its state here. @param communicator  must live until the
  /// optimizer has its segments
  void take(FusedSegment& segment, std::size_t bucket, Communicator& communicator);
  /// An update of all parameters but the skipped ones is finished. @param skip  by place in the bucket
  void count(std::size_t bucket, const std::vector<bool>& skip);

  /// The memory of a bucket's state, by buffer, laid out as its weights.
  const std::vector<at::Tensor>& buffers(std::size_t bucket) const { return buffers_[bucket]; }
  /// The state of all parameters, as views of this memory.
  NamedState whole(const NamedParameters& names) const;

 private:
  struct Place {
    at::Tensor parameter;
    std::int64_t offset = 0;  // in its bucket's memory
    std::int64_t step = 0;    // updates made so far
  };

  const FlatOptimizer& optimizer_;
  std::vector<std::vector<Place>> places_;        // by bucket
  std::vector<std::vector<at::Tensor>> buffers_;  // by bucket
};

}  // namespace lockstep

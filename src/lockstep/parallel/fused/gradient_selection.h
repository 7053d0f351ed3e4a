#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/fused/fused_bucket.h"
#include "lockstep/parallel/fused/owned_gradients.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"

namespace lockstep {

/// The parameters that a call of clip_grad_norm_ concerns.
class GradientSelection {
 public:
  explicit GradientSelection(std::size_t parameters) : marks_(parameters, 0) {}

  void clear();
  void add(std::size_t parameter) { marks_[parameter] = 1; }
  bool contains(std::size_t parameter) const { return marks_[parameter] != 0; }
  /// Differs between different selections.
  std::uint64_t number() const;
  /// Sends `root`'s selection to all ranks. Collective.
  void broadcast(Communicator& communicator, int root);
  /// The selected part of `owned`, which is this rank's part of the bucket.
  std::vector<OwnedGradients> cut(const OwnedGradients& owned, const FusedBucket& bucket,
                                  const GradientBuckets& gradients) const;

 private:
  std::vector<std::uint8_t> marks_;  // by parameter
};

}  // namespace lockstep

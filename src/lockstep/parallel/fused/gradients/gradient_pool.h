#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/fused/fused_bucket.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"

namespace lockstep {

/// Memory for the gradients of a few buckets at a time, which all buckets use in turn. Each bucket always uses the same
/// slot, so ranks need no message to agree on it.
class GradientPool {
 public:
  GradientPool() = default;
  /// Allocates the slots, each as long as the longest of its buckets, and lets the buckets' gradients lie there from
  /// now on. Collective. @param slots  of each dtype
  /// @throws Error  if memory is short on some rank; GradientBuckets::use_own_dtype then restores everything
  GradientPool(std::vector<FusedBucket>& buckets, at::ScalarType dtype, std::size_t slots, GradientBuckets& gradients,
               Communicator& communicator);

  /// The bucket whose reduction reads the slot that `bucket` uses.
  std::optional<std::size_t> occupant(std::size_t bucket) const { return occupants_[slots_[bucket]]; }
  void occupy(std::size_t bucket) { occupants_[slots_[bucket]] = bucket; }
  /// The reduction that read the slot has ended.
  void leave(std::size_t bucket) { occupants_[slots_[bucket]].reset(); }

 private:
  std::vector<std::size_t> slots_;                     // by bucket
  std::vector<std::optional<std::size_t>> occupants_;  // by slot
};

}  // namespace lockstep

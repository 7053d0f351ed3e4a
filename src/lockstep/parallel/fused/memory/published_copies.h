#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/optim/kernels/kernels.h"
#include "lockstep/parallel/fused/fused_bucket.h"
#include "lockstep/parallel/fused/fused_watch.h"
#include "lockstep/parallel/fused/memory/fused_memory.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"
#include "lockstep/tensor/compute_copy.h"

namespace lockstep {

/// The bf16 copies of a fused update's fp32 weights: one for all ranks, in memory that they share. The update writes
/// them in its pass over the weights, and `compute_copy` hands them out as long as nobody else has written the weights.
///
/// Matrices come first, in the order of registration, so that those that are multiplied together are neighbours.
class PublishedCopies final : public ComputeCopySource {
 public:
  /// Allocates the copies, fills them, and offers them to `compute_copy`. What is given must outlive this object.
  /// Collective. @throws Error  if memory is short on some rank
  PublishedCopies(const std::vector<FusedBucket>& buckets, const GradientBuckets& gradients, FusedMemory& memory,
                  const FusedWatch& watch, Communicator& communicator);

  at::Tensor current_copy(const at::Tensor& parameter) override;

  /// Where an update of the bucket writes its parameters' copies, by place in the bucket; empty for fp64 weights.
  std::vector<WeightCopy> targets(const FusedBucket& bucket);
  /// Makes this rank's part of the parameter's copy again. @return  true if it has changed
  bool round_again(const FusedBucket& bucket, std::size_t place);

  /// An update found that forward had read another value than the parameter's: it was written past the watch.
  bool was_stale(std::size_t parameter) const { return slots_[parameter].was_stale.load(std::memory_order_relaxed); }
  /// All ranks have been told of the stale copies, which the update has made right.
  void forgive();
  /// Warns of stale copies that the update has found. Collective. @return  false if no rank has ever read a copy
  bool end_update(Communicator& communicator);

 private:
  struct Slot {
    at::Tensor copy;  // undefined: the parameter has none
    std::atomic<bool> was_stale{false};
  };

  void place(const std::vector<FusedBucket>& buckets, const GradientBuckets& gradients, Communicator& communicator);
  std::uint16_t* bits(std::size_t parameter) const;

  const GradientBuckets& gradients_;
  FusedMemory& memory_;
  const FusedWatch& watch_;
  std::vector<Slot> slots_;                                          // by parameter
  std::unordered_map<const c10::TensorImpl*, std::size_t> indices_;  // of the parameters that have a copy
  std::atomic<bool> was_read_{false};
  bool is_wanted_ = false;                 // some rank has read a copy
  std::optional<ComputeCopyOffer> offer_;  // last: the first to go
};

}  // namespace lockstep

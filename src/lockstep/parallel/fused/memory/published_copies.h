#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "lockstep/optim/kernels/kernels.h"
#include "lockstep/parallel/update/copy_wishes.h"
#include "lockstep/parallel/update/update_context.h"
#include "lockstep/parallel/update/update_part.h"
#include "lockstep/tensor/compute_copy.h"

namespace lockstep {

/// The bf16 copies of a fused update's fp32 weights. There are as many as there are copies of the weights: one for all
/// ranks, one on each host, or one on each rank. The update writes them in its pass over the weights, what other ranks
/// have updated is rounded when it arrives, and `compute_copy` hands them out as long as nobody else has written the
/// weights.
///
/// A weight gets a copy in the first update after a forward has asked for one. So weights that are read in fp32 alone,
/// as embeddings are, cost nothing.
class PublishedCopies final : public UpdatePart, public ComputeCopySource {
 public:
  /// Offers copies to `compute_copy`. What is given must outlive this object.
  explicit PublishedCopies(UpdateContext& context);

  at::Tensor current_copy(const at::Tensor& parameter) override;

  /// Also takes what the last update has found: forward had read another value than the parameter's, which was written
  /// past the watch. The update has made the copy right.
  void look() override;
  /// Makes the copies of weights that programs have written again, and those that forwards of any rank have asked for.
  /// If memory is short for these on a rank, warns, and never makes more.
  /// @throws AgreedError  if a rank that computes has read a copy without the write
  void take_up() override;
  void targets(std::size_t bucket, SegmentUpdate& update) override;
  /// Makes the copies of what other ranks have updated and sent: this rank's part of it.
  void received(std::size_t bucket) override;
  /// Returns when the copies that this rank reads are up to date. Warns of stale copies that the update has found.
  void weights_are_here() override;

 private:
  struct Slot {
    at::Tensor copy;  // undefined: the parameter has none
    std::atomic<bool> is_wanted{false};
    std::atomic<bool> was_stale{false};
  };

  void renew();
  void make_wanted();
  std::vector<std::uint8_t> wanted_by_any();
  void place(const std::vector<std::uint8_t>& wanted);
  at::Tensor allocate(std::int64_t numel);
  std::uint16_t* bits(std::size_t parameter) const;
  bool round_again(const FusedBucket& bucket, std::size_t place);
  bool round(const FusedBucket& bucket, std::size_t place, std::int64_t begin, std::int64_t end);

  const UpdatePlan& plan_;
  const std::vector<FusedBucket>& buckets_;
  const GradientBuckets& gradients_;
  FusedMemory& memory_;
  const FusedWatch& watch_;
  FusedFaults& faults_;
  const WeightChanges& changes_;
  const UpdateAgreement& agreement_;
  Communicator& communicator_;
  CopyWishes wishes_;
  std::vector<Slot> slots_;                                          // by parameter
  std::unordered_map<const c10::TensorImpl*, std::size_t> indices_;  // of the fp32 parameters
  std::atomic<bool> are_wanted_{false};
  std::size_t num_copies_ = 0;
  bool is_short_ = false;                  // of memory; equal on all ranks
  bool has_received_ = false;              // in this update; equal on all ranks
  std::optional<ComputeCopyOffer> offer_;  // last: the first to go
};

}  // namespace lockstep

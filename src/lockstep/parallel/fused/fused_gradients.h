#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/parallel/fused/fused_bucket.h"
#include "lockstep/parallel/fused/fused_watch.h"
#include "lockstep/parallel/fused/memory/fused_memory.h"
#include "lockstep/parallel/fused/update_plan.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"
#include "lockstep/parallel/reducer/later_reduction.h"

namespace lockstep {

/// This rank's gradients of a fused update, from their arrival in backward to the update that uses them up.
class FusedGradients final : public LaterReduction {
 public:
  /// What is given must outlive this object.
  FusedGradients(const UpdatePlan& plan, GradientBuckets& gradients, const std::vector<FusedBucket>& buckets,
                 FusedMemory& memory, FusedWatch& watch);

  void gradient_arrived(std::size_t parameter) override;
  bool starts_in_backward() const override;
  std::shared_ptr<Work> start(std::size_t bucket) override;
  void backward_ended(bool all_started) override;

  /// Brings the gradients to their buckets, and writes zeros for missing ones.
  /// @param contributed  by parameter: set to 1 if this rank has a gradient
  void collect(std::vector<std::uint8_t>& contributed);
  /// Whether the last backward has added up all ranks' gradients, and nothing was written to this rank's since.
  bool are_summed() const { return summed_ && *summed_ == versions(); }
  /// The gradients are this rank's sums of virtual shards now.
  void take_shard_sums() { shard_sums_ = versions(); }
  /// Parameters whose gradients are not these sums: written since, or never made for this update.
  std::vector<std::size_t> without_shard_sum() const;
  /// The sums of all ranks' gradients are begun.
  void sums_begun() { summed_ = versions(); }
  /// The update has used the gradients. Sets `grad` of every parameter for which some rank had one.
  /// @return  number of parameters for which no rank had one
  std::size_t end_update(const std::vector<std::uint8_t>& contributed);
  /// Counts writes to the gradients; equal counts mean that nothing was written.
  std::uint64_t writes() const;

 private:
  std::vector<std::uint64_t> versions() const;

  const UpdatePlan& plan_;
  GradientBuckets& gradients_;
  const std::vector<FusedBucket>& buckets_;
  FusedMemory& memory_;
  FusedWatch& watch_;
  std::vector<std::size_t> parameters_;  // in ascending order
  std::uint64_t arrivals_ = 0;
  std::optional<std::vector<std::uint64_t>> shard_sums_;  // versions when virtual shards had ended
  std::optional<std::vector<std::uint64_t>> summed_;      // versions when backward had added the gradients up
};

}  // namespace lockstep

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/parallel/fused/weights/sharded_weights.h"
#include "lockstep/parallel/fused/weights/write_watch.h"
#include "lockstep/parallel/update/update_context.h"
#include "lockstep/parallel/update/update_part.h"

namespace lockstep {

/// The weights of a fused update that the program wrote between two updates, in place or into other memory
/// (torch::load).
///
/// If ranks share weights, a parameter that the program is about to write gets memory of this rank: so each rank writes
/// as if it had all weights for itself. The next update compares the ranks' values and lets the ranks share them again.
class WrittenWeights final : public UpdatePart, private WriteWatcher {
 public:
  /// What is given must outlive this object.
  WrittenWeights(UpdateContext& context, const std::unique_ptr<ShardedWeights>& shards);

  void look() override;
  /// If a program wrote weights, requires that it wrote the same values on all ranks. Weights in other memory are
  /// copied to where the update updates them; if ranks share one copy, each rank copies its share.
  /// @throws AgreedError  if values differ
  void take_up() override;
  /// Copies weights that ranks share to memory of this rank. Not collective.
  void move_to_own_memory();

 private:
  void before_write(std::size_t parameter) override;
  bool any_here() const;
  bool is_moved(const FusedBucket& bucket, std::size_t place) const;
  std::vector<std::uint8_t> own_changes() const;
  void check_all_moved() const;
  void check_equal() const;
  void warn_of_shared_writes(const std::vector<std::uint8_t>& changes);
  std::size_t place_of(const FusedBucket& bucket) const;
  void adopt(const FusedBucket& bucket, std::size_t place);

  const UpdatePlan& plan_;
  const GradientBuckets& gradients_;
  const std::vector<FusedBucket>& buckets_;
  FusedWatch& watch_;
  const std::unique_ptr<ShardedWeights>& shards_;  // null if each rank has all weights
  WeightChanges& changes_;
  Communicator& communicator_;
  UpdateAgreement& agreement_;
  const AnySlot moved_;
  std::optional<WatchedWrites> writes_;  // empty if each rank has its own, or memory outlives the ranks
  bool has_warned_ = false;              // about writes to shared weights; equal on all ranks
};

}  // namespace lockstep

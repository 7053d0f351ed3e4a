#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/parallel/fused/memory/published_copies.h"
#include "lockstep/parallel/fused/weights/sharded_weights.h"
#include "lockstep/parallel/fused/weights/write_watch.h"
#include "lockstep/parallel/update/update_context.h"

namespace lockstep {

/// The weights of a fused update that the program wrote between two updates, in place or into other memory
/// (torch::load).
///
/// If ranks share weights, a parameter that the program is about to write gets memory of this rank: so each rank writes
/// as if it had all weights for itself. The next update compares the ranks' values and lets the ranks share them again.
class WrittenWeights final : private WriteWatcher {
 public:
  /// What is given must outlive this object.
  WrittenWeights(UpdateContext& context, const std::unique_ptr<PublishedCopies>& copies,
                 const std::unique_ptr<ShardedWeights>& shards);

  /// Tells the other ranks if this rank's program wrote weights since the last update.
  void look();
  /// Whether any rank's did.
  bool any() const { return agreement_.said(moved_); }
  /// Requires that the program wrote the same values on all ranks. Weights in other memory are copied to where the
  /// update updates them; if ranks share one copy, each rank copies its share. Their bf16 copies are made again.
  /// Collective.
  /// @param computes  this rank has inputs
  /// @throws AgreedError  if values differ, or a rank that computes has read a bf16 copy without the write
  void take_up(bool computes);
  /// Copies weights that ranks share to memory of this rank. Not collective.
  void move_to_own_memory();

 private:
  void before_write(std::size_t parameter) override;
  bool any_here() const;
  bool is_moved(const FusedBucket& bucket, std::size_t place) const;
  std::vector<std::uint8_t> own_changes() const;
  void check_all_moved(const std::vector<std::uint8_t>& own_changes, const std::vector<std::uint8_t>& changes);
  void check_equal(const std::vector<std::uint8_t>& changes);
  void warn_of_shared_writes(const std::vector<std::uint8_t>& changes);
  std::size_t place_of(const FusedBucket& bucket) const;
  void adopt(const FusedBucket& bucket, std::size_t place);
  void renew_copies(const std::vector<std::uint8_t>& own_changes, const std::vector<std::uint8_t>& changes,
                    bool computes);

  const UpdatePlan& plan_;
  const GradientBuckets& gradients_;
  const std::vector<FusedBucket>& buckets_;
  FusedWatch& watch_;
  const std::unique_ptr<PublishedCopies>& copies_;  // null without copies
  const std::unique_ptr<ShardedWeights>& shards_;   // null if each rank has all weights
  Communicator& communicator_;
  UpdateAgreement& agreement_;
  const AnySlot moved_;
  std::optional<WatchedWrites> writes_;  // empty if each rank has its own, or memory outlives the ranks
  bool has_warned_ = false;              // about writes to shared weights; equal on all ranks
};

}  // namespace lockstep

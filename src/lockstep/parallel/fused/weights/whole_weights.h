#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "lockstep/parallel/fused/weights/write_watch.h"
#include "lockstep/parallel/update/update_context.h"
#include "lockstep/parallel/update/weight_place.h"

namespace lockstep {

/// Weights of which each rank or host has all.
///
/// If ranks share weights, a parameter that the program is about to write gets memory of this rank: so each rank writes
/// as if it had all weights for itself. The next update compares the ranks' values and lets the ranks share them again.
class WholeWeights final : public WeightPlace, private WriteWatcher {
 public:
  /// What is given must outlive this object.
  explicit WholeWeights(UpdateContext& context);

  void* owned_weights(std::size_t bucket) const override { return buckets_[bucket].weights.data_ptr(); }
  bool is_moved(std::size_t bucket, std::size_t place) const override;
  /// If ranks share one copy, each rank copies its share.
  void adopt(std::size_t bucket, std::size_t place) override;
  Communicator& meeting() const override { return communicator_; }
  void move_to_own_memory() override;
  /// Copies shared weights to memory of this rank.
  void leave() override;

 private:
  void before_write(std::size_t parameter) override;

  const UpdatePlan& plan_;
  const GradientBuckets& gradients_;
  const std::vector<FusedBucket>& buckets_;
  FusedWatch& watch_;
  Communicator& communicator_;
  std::optional<WatchedWrites> writes_;  // empty if each rank has its own, or memory outlives the ranks
};

}  // namespace lockstep

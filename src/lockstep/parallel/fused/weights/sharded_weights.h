#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/detail/tensor/tensor_part.h"
#include "lockstep/parallel/agreement/step_position.h"
#include "lockstep/parallel/fused/fused_bucket.h"
#include "lockstep/parallel/fused/update_plan.h"
#include "lockstep/parallel/fused/weights/read_watch.h"
#include "lockstep/parallel/fused/weights/sharded_buckets.h"
#include "lockstep/parallel/fused/weights/sharded_copies.h"
#include "lockstep/parallel/fused/weights/unit_gathering.h"
#include "lockstep/parallel/fused/weights/weight_bytes.h"
#include "lockstep/parallel/fused/weights/weight_units.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"
#include "lockstep/parallel/update/weight_place.h"

namespace lockstep {

/// The weights of a fused update in shards (Rajbhandari et al., 2020, arXiv:1910.02054, stage 3): each rank keeps the
/// elements that it updates (`ShardedBuckets`), and others are here while somebody reads them (`UnitGathering`). This
/// class is what the update and the wrapper see of it.
///
/// Gathering uses a group of its own, because gradients leave in an order that other things decide.
class ShardedWeights final : public WeightPlace {
 public:
  struct Parts {
    const GradientBuckets& gradients;
    std::vector<FusedBucket>& buckets;  ///< with regions; gets weights
    const std::shared_ptr<Communicator>& communicator;
    bool gathers_for_host;  ///< the engine is a HostMemoryEngine, and the ranks of a host have one copy of a unit
    bool follows_backward;  ///< forwards may begin without `enter_forward`
    const UpdatePlan& plan;
    bool has_copies;  ///< `compute_copy` gets bf16 copies
    std::function<StepPosition()> position;
  };
  /// Takes the parameters' memory away. What is given must outlive this object. Collective.
  ShardedWeights(const Parts& parts, const std::vector<std::string>& units, bool reshard_after_forward);
  /// After `gather_all`, parameters get memory of their own; otherwise a read is an Error from then on.
  ~ShardedWeights() override;

  void* owned_weights(std::size_t bucket) const override { return shards_.owned_weights(bucket); }

  void enter_forward() { gathering_.enter_forward(); }
  void leave_forward() noexcept { gathering_.leave_forward(); }
  /// The group in which units are gathered. A rank that leaves out a step gathers the next one there, so the others'
  /// step meets it there.
  Communicator& meeting() const override { return *group_; }
  void leave_backward() noexcept override { gathering_.leave_backward(); }
  void free_all() override { gathering_.free_all(); }
  /// As UnitGathering's.
  bool gather_all() { return gathering_.gather_all(); }
  void take_writes() override;
  void give_back() override;

  /// This rank's elements of each parameter, perhaps none: views of its shards, or what the program has written. Not
  /// collective.
  TensorParts own_parts();
  /// Lets `write` give new values to all of these elements. Values that the program has written are forgotten. Frees
  /// what was gathered. Not collective, but each rank must do so before the next unit is gathered.
  void write_own_parts(const std::function<void(const TensorParts&)>& write) override;

  bool is_moved(std::size_t bucket, std::size_t place) const override { return shards_.is_moved(bucket, place); }
  /// Takes the owned elements alone.
  void adopt(std::size_t bucket, std::size_t place) override;
  void check_comparable(const WeightChanges& changes) const override;

  /// The bf16 copies; null if there are none.
  ShardedCopies* copies() { return copies_.get(); }
  std::int64_t peak_bytes() const { return bytes_.peak(); }

 private:
  ShownWeight shown(std::size_t bucket, std::size_t place) const;
  at::Tensor own_values(std::size_t bucket, std::size_t place, std::int64_t begin, std::int64_t end) const;

  const GradientBuckets& gradients_;
  std::vector<FusedBucket>& buckets_;
  std::shared_ptr<Communicator> communicator_;
  std::shared_ptr<Communicator> group_;
  const WeightUnits units_;
  WeightBytes bytes_;
  ShardedBuckets shards_;
  UnitGathering gathering_;
  std::unique_ptr<ShardedCopies> copies_;
  WatchedParameters watched_;
};

}  // namespace lockstep

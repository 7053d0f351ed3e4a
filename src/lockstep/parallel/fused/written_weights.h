#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/parallel/update/update_context.h"
#include "lockstep/parallel/update/update_part.h"

namespace lockstep {

/// The weights of a fused update that the program wrote between two updates, in place or into other memory
/// (torch::load).
class WrittenWeights final : public UpdatePart {
 public:
  /// What is given must outlive this object.
  explicit WrittenWeights(UpdateContext& context);

  void look() override;
  /// If a program wrote weights, requires that it wrote the same values on all ranks. Weights in other memory are
  /// taken to where the update updates them.
  /// @throws AgreedError  if values differ
  void take_up() override;

 private:
  bool any_here() const;
  std::vector<std::uint8_t> own_changes() const;
  void check_equal() const;
  void warn_of_shared_writes(const std::vector<std::uint8_t>& changes);

  const UpdatePlan& plan_;
  const GradientBuckets& gradients_;
  const std::vector<FusedBucket>& buckets_;
  FusedWatch& watch_;
  WeightPlace& weights_;
  WeightChanges& changes_;
  Communicator& communicator_;
  UpdateAgreement& agreement_;
  const AnySlot moved_;
  bool has_warned_ = false;  // about writes to shared weights; equal on all ranks
};

}  // namespace lockstep

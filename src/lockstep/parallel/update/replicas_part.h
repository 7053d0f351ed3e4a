#pragma once

#include <cstdint>

#include "lockstep/parallel/update/update_context.h"
#include "lockstep/parallel/update/update_part.h"

namespace lockstep {

/// Compares replicas where backward sends nothing that could carry what ReplicaWatch sees: all buckets are the fused
/// update's.
class ReplicasPart final : public UpdatePart {
 public:
  /// What is given must outlive this object.
  explicit ReplicasPart(UpdateContext& context)
      : backward_(context.backward),
        communicator_(*context.communicator),
        agreement_(context.agreement),
        bits_(agreement_.equal<std::uint32_t>()) {}

  void look() override {
    if (!backward_.all_kept) return;
    if (const auto bits = backward_.look_at_replicas()) agreement_.say(bits_, *bits);
  }
  void take_up() override { backward_.replicas.compare(communicator_, agreement_.differing_bytes(bits_)); }

 private:
  BackwardContext& backward_;
  Communicator& communicator_;
  UpdateAgreement& agreement_;
  const EqualSlot<std::uint32_t> bits_;
};

}  // namespace lockstep

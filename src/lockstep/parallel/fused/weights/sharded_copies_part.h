#pragma once

#include <cstddef>

#include "lockstep/parallel/fused/weights/sharded_copies.h"
#include "lockstep/parallel/update/copy_wishes.h"
#include "lockstep/parallel/update/update_context.h"
#include "lockstep/parallel/update/update_part.h"

namespace lockstep {

/// The bf16 copies of weights in shards, as a part of the update. ShardedWeights owns them, because it gathers weights
/// and copies together.
class ShardedCopiesPart final : public UpdatePart {
 public:
  /// What is given must outlive this object.
  ShardedCopiesPart(UpdateContext& context, ShardedCopies& copies)
      : buckets_(context.buckets), copies_(copies), wishes_(context) {}

  void look() override { wishes_.say(copies_.are_wanted()); }
  void take_up() override {
    if (wishes_.any()) return copies_.agree();
    if (copies_.are_unused()) wishes_.note_unused();
  }
  void targets(std::size_t bucket, SegmentUpdate& update) override {
    update.copies = copies_.targets(buckets_[bucket]);
  }

 private:
  const std::vector<FusedBucket>& buckets_;
  ShardedCopies& copies_;
  CopyWishes wishes_;
};

}  // namespace lockstep

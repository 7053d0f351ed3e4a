#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/optim/update/fused_segment.h"
#include "lockstep/parallel/fused/fused_bucket.h"
#include "lockstep/parallel/fused/recovery/shared_state.h"
#include "lockstep/parallel/fused/recovery/update_journal.h"
#include "lockstep/parallel/fused/update_plan.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"
#include "lockstep/parallel/shards/terms_in_place.h"

namespace lockstep {

class VirtualShards;

/// Fused updates of virtual shards in memory that the ranks of one host share, which survivors of lost ranks can
/// finish: weights, state, gradients and journal are there for all of them.
///
/// Each rank's regions are cut into chunks, and its chunks into lanes, one for each thread that updates. The rules are
/// those of shm::UpdateLane and shm::UpdateDecision.
class RecoverableUpdate {
 public:
  struct Parts {
    FlatOptimizer& optimizer;  ///< whole on each rank as yet
    const UpdatePlan& plan;
    const std::vector<FusedBucket>& buckets;  ///< with weights that outlive the group
    const GradientBuckets& gradients;
    const VirtualShards& shards;
  };
  /// Collective. What is given must outlive this object. The state must then take the optimizer's segments.
  /// @throws Error  on every rank, if memory is short
  RecoverableUpdate(const Parts& parts, Communicator& communicator);

  /// The optimizer's state, which may outlive this object.
  const std::shared_ptr<SharedState>& state() const { return state_; }

  /// The sums of all ranks' gradients are made again.
  void sums_begun() { scalings_.clear(); }
  /// Elements [begin, end) of these sums are multiplied by `factor` before the update. The ranks' terms must not be.
  void follow_scaling(std::size_t bucket, std::int64_t begin, std::int64_t end, double factor) {
    scalings_.push_back({{bucket, begin, end}, factor});
  }

  /// This rank knows all that the next update needs. From here on survivors finish it.
  void decide(const UpdateNote& note);
  /// Updates this rank's part of a bucket, in the order of the list. @param update  without a range
  void update_own(std::size_t bucket, const SegmentUpdate& update);
  /// The update is finished on all ranks.
  void end(const std::vector<std::uint8_t>& contributed);

  /// Whether the next update is decided. For survivors, when all others have ended or left the update; so are those
  /// that follow.
  bool is_decided() { return journal_.decision(number_ + 1).has_value(); }
  /// Does this rank's part of what is left of the decided update, and lost ranks' parts, which survivors deal out. All
  /// is done when all survivors have done so. Then call `end`. @param survivors  a group without the lost ranks
  UpdateNote finish(const Communicator& survivors);

 private:
  struct Chunk {
    std::size_t bucket = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  struct Scaling {
    Chunk part;
    double factor = 1;
  };
  struct Lane {
    std::vector<Chunk> chunks;
    std::vector<std::uint64_t> until;  // by bucket: chunks of it and of those before it
  };
  struct LaneChunks;

  Lane cut_lane(int rank, int lane) const;
  void run_lane(int rank, int lane, std::size_t bucket, SegmentUpdate update);
  bool is_done(int rank, std::size_t bucket);
  at::Tensor sum_of(int rank, std::size_t bucket) const;
  void finish_bucket(int rank, std::size_t bucket, const UpdateNote& note);
  std::vector<bool> skipped(std::size_t bucket, const std::vector<std::uint8_t>& contributed) const;

  Parts parts_;
  std::vector<Peer> peers_;  // by rank
  int rank_;
  std::shared_ptr<SharedState> state_;
  std::vector<TermsInPlace> terms_;  // by bucket; none in a group of one rank
  std::vector<Scaling> scalings_;    // of the sums, in this order
  UpdateJournal journal_;
  std::vector<std::vector<Lane>> lanes_;  // by rank
  std::uint64_t number_ = 0;              // of the update that was finished last
};

}  // namespace lockstep

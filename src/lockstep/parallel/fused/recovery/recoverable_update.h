#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/optim/update/fused_segment.h"
#include "lockstep/parallel/fused/fused_bucket.h"
#include "lockstep/parallel/fused/recovery/lasting_memory.h"
#include "lockstep/parallel/fused/recovery/shared_state.h"
#include "lockstep/parallel/fused/recovery/update_journal.h"

namespace lockstep {

/// Fused updates in memory that outlives the ranks of one host, which survivors of lost ranks can finish, or the ranks
/// that come after all of them: weights, state, sums of gradients and journal are there for all. Each host makes the
/// whole update.
///
/// The ranks of a host share out the buckets. A rank's parts are cut into lanes, one for each thread that updates. The
/// rules are those of UpdateLane and shm::UpdateDecision; those between hosts are meet_after_loss's.
class RecoverableUpdate {
 public:
  struct Parts {
    FlatOptimizer& optimizer;
    const std::vector<FusedBucket>& buckets;
    SharedState& state;
  };
  /// What is given must outlive this object. @param memory  of weights, state and sums
  RecoverableUpdate(const Parts& parts, std::shared_ptr<LastingMemory> memory, const MemoryHosts& hosts,
                    const Communicator& communicator);
  static LastingMemory::Lanes lanes_for(const std::vector<FusedBucket>& buckets, std::size_t parameters,
                                        Communicator& communicator);

  /// Once the optimizer has its segments: finishes an update that ranks of an earlier group had decided and did not
  /// live to finish, and begins this group's journal. Collective.
  void begin(Communicator& communicator);

  /// This rank knows all that the next update needs, and the sums of all ranks are complete on every host. From here on
  /// survivors finish it.
  void decide(const UpdateNote& note) { crew_.journal.decide(number_ + 1, note); }
  /// Updates this rank's part of a bucket, in the order of the list. @param update  without a range
  void update_own(std::size_t bucket, const SegmentUpdate& update);
  /// The update is finished on all ranks.
  void end(const UpdateNote& note);

  std::uint64_t next_number() const { return number_ + 1; }
  /// What this host's ranks have noted of the next update; nothing if it is not decided here. For survivors, when all
  /// others have ended or left the update; so is `finish`.
  std::optional<UpdateNote> decision() { return crew_.journal.decision(number_ + 1); }
  /// Does this rank's part of what is left of the decided update, and lost ranks' parts, which this host's survivors
  /// deal out. All is done when all survivors have done so. Then call `end`. @param survivors  a group without the lost
  /// ranks
  void finish(const Communicator& survivors);

 private:
  // What a lane has of one bucket. A lane's pieces lie one behind the other.
  struct Piece {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::uint64_t first = 0;  // place of its first element in the lane

    std::uint64_t until() const { return first + static_cast<std::uint64_t>(end - begin); }
  };
  using Lane = std::vector<Piece>;  // by bucket
  /// The ranks of one group on this host. They are counted by their places there.
  struct Crew {
    UpdateJournal journal;
    std::vector<std::vector<Lane>> lanes;  // by place
  };

  Crew crew_of(int place, int ranks) const;
  Region part_of(std::size_t bucket, int place, int ranks) const;
  Lane cut_lane(int place, int lane, int ranks) const;
  void run_lane(Crew& crew, int place, int lane, std::size_t bucket, SegmentUpdate update);
  UndoLog undo_of(Crew& crew, int place, int lane, std::size_t bucket) const;
  bool is_done(Crew& crew, int place, std::size_t bucket) const;
  void finish_rank(Crew& crew, int place, const UpdateNote& note);
  void finish_bucket(Crew& crew, int place, std::size_t bucket, const UpdateNote& note);
  std::vector<bool> skipped(std::size_t bucket, const std::vector<std::uint8_t>& contributed) const;

  Parts parts_;
  std::shared_ptr<LastingMemory> memory_;
  std::vector<Peer> peers_;  // of this host, by place
  int place_;
  int ranks_here_;
  Crew crew_;
  std::uint64_t number_;  // of the update that was finished last
};

}  // namespace lockstep

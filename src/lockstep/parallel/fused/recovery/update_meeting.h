#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/fused/recovery/update_journal.h"

namespace lockstep {

/// The update of a rank that has lost another one in the step of a fused optimizer, as the rank's first meeting with
/// the other survivors sees it.
class InterruptedUpdate {
 public:
  virtual ~InterruptedUpdate() = default;
  virtual std::uint64_t number() const = 0;
  /// What ranks of this host have noted of it; nothing if none of them has begun to write.
  virtual std::optional<UpdateNote> note() = 0;
  /// A rank of another host has begun to write: notes that here, too.
  virtual void take(const UpdateNote& note) = 0;
  /// Does this rank's part of what is left of it.
  virtual void finish() = 0;
};

/// The first exchange of a group that lost ranks have left. Ranks that have lost one in a step learn whether the update
/// is decided, which it is if a rank of any host that is left has begun to write: then they finish it here. All others
/// wait for them. Collective.
/// @param update  of this rank; null: it has lost none in a step
/// @return  whether that update is finished, by all ranks
bool meet_after_loss(Communicator& group, InterruptedUpdate* update);

/// What a rank says there.
struct StepReport {
  std::uint64_t number = 0;  ///< of the update that the loss of a rank interrupted, from 1; 0: none was
  bool has_note = false;     ///< a rank of the same host has begun to write
};
/// What follows from all reports. Equal on all ranks.
struct MeetingPlan {
  bool any_decided = false;  ///< some rank has an update to finish, and all ranks wait for it
  int source = -1;           ///< a rank that tells others what its host has noted; -1: nobody needs to be told
  std::uint64_t number = 0;  ///< of the update that it tells of
};
MeetingPlan plan_meeting(const std::vector<StepReport>& reports);

}  // namespace lockstep

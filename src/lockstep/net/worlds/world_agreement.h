#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/net/worlds/world.h"

namespace lockstep {

/// How members met before they connect.
struct WorldMeeting {
  bool is_complete = false;  ///< all are ready; else one of them is gone or late, or another world has been proposed
  std::vector<Peer> late;    ///< those that had not arrived by the deadline, and are not known to be gone
};

/// One process's part in the agreement on worlds: what `next_step` decides, over the job's store. No process leads: any
/// member may propose, and the store, which is outside of the ranks, keeps the first proposal. One thread at a time.
class WorldAgreement {
 public:
  /// @param store  of the job, equal on all its processes
  /// @param self   this process
  WorldAgreement(std::shared_ptr<Store> store, Peer self);

  /// The next world of `current`'s members; waits until one of them is gone, or until a world was proposed.
  /// @param must_change  propose one even if no member is gone
  /// @param admits       let waiting processes in: all members must say so at the same place of their work
  /// @throws TimeoutError  if nothing has changed by the deadline
  /// @throws Error  if the other members continue without this process
  RankWorld next(const RankWorld& current, bool must_change, bool admits, Deadline deadline);
  /// Whether a member of `current` is gone, or a world after it is proposed: `next` would not wait. Two requests.
  bool has_changed(const RankWorld& current);
  /// From now on this process agrees in another store.
  void begin_era(std::int64_t era);
  /// The first world in a new store. All on the roll tell their worlds; once all are there that are not gone, each of
  /// them can propose the same. Those of `current` that were not there in time are added to `late`.
  /// @throws Error  if the others continue without this process
  RankWorld call_roll(const RankWorld& current, const std::set<int>& roll, Deadline deadline, std::vector<Peer>& late);
  /// Reports that this process is ready to connect `world`, and waits for its other members.
  WorldMeeting meet(const RankWorld& world, Deadline deadline);

  /// From now on these members of the present world count as gone, although their processes may live: they were not
  /// heard of within the timeout.
  void give_up(int global_rank) { given_up_.insert(global_rank); }
  /// The members of `world` have connected, so none of them counts as given up any more.
  void heard_of(const RankWorld& world);

  /// No more members than `most` are let in; those beyond wait until one is lost. All members must agree on it.
  void limit(int most) { most_ = most; }
  /// A member's look for processes that want to join.
  bool someone_waits(const RankWorld& current);
  /// A new process asks to be let in, and waits until it is a member of a world, which may not be the newest any more.
  /// @throws Error  if the members need no others any more
  /// @throws TimeoutError  at the deadline
  RankWorld wait_for_admission(Deadline deadline);
  /// This process needs the others no more, and is not to be taken for lost.
  void leave();
  /// The members need no more processes.
  void close();

 private:
  std::set<int> gone();
  std::vector<Peer> waiting(const RankWorld& current, std::int64_t asked);
  void propose_first(const std::vector<std::optional<std::string>>& told, const std::vector<int>& numbers,
                     const std::set<int>& gone);
  std::int64_t asked();

  std::shared_ptr<Store> store_;
  Peer self_;
  std::int64_t era_ = 0;
  std::set<int> given_up_;
  int most_ = 0;              // members; 0: any number
  std::int64_t settled_ = 0;  // requests to join that need no answer any more
};

}  // namespace lockstep

#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <optional>

#include "lockstep/net/worlds/store_move.h"
#include "lockstep/net/worlds/world_agreement.h"

namespace lockstep {

/// Throws `failure` itself unless it says that the group ended because of a rank that was lost, has left, was not heard
/// of, or has failed: if one is lost, the others can form another group.
void require_lost_rank(const std::exception_ptr& failure);

/// What a member does to the processes of a world.
class WorldLinks {
 public:
  virtual ~WorldLinks() = default;
  /// Ends the connections to the present group, so that those who still wait in it notice.
  virtual void disconnect() = 0;
  /// Connects to the others of `world`, all of which are ready to. @throws Error  if that fails, with the cause of a
  /// lost rank or as a TimeoutError if the others may try again
  virtual void connect(const RankWorld& world) = 0;
  /// Connects to the store that replaces the job's store, which is lost: waits until the launcher knows it.
  /// @return  nothing if this job's store is never replaced
  /// @throws StoreLostError  if the new store is lost, too; Error  if no store appears in time
  virtual std::optional<StoreMove> follow_store() = 0;
  /// Ends a process of this host that was not heard of, so that the launcher can replace it.
  virtual void end_process(int pid) = 0;
};

/// How long a member waits for others.
struct WorldPatience {
  std::chrono::milliseconds timeout;  ///< of collectives, and for members that do not arrive
  /// If a collective timed out although every member waited in one: time for a loss to show.
  std::chrono::milliseconds if_nobody_is_late{500};
};

/// One process on its way through the job's worlds: it recovers from lost ranks, lets processes in, or is let in. What
/// decides is here, without the connections themselves. One thread at a time.
class WorldMember {
 public:
  static constexpr int kMostRepeats = 3;

  /// @param store    of the job's ranks
  /// @param world    that this process is in; without members if it has not joined yet
  /// @param links    outlives this object
  /// @param era      how many stores of the job were lost before `store`
  WorldMember(std::shared_ptr<Store> store, Peer self, RankWorld world, WorldPatience patience, WorldLinks& links,
              std::int64_t era = 0);

  const RankWorld& world() const { return world_; }
  const Peer& self() const { return self_; }

  /// Waits until the members let this process in, and connects to them.
  /// @throws Error  if they need no more ranks
  void join();
  /// Connects those that are left after `failure`, with which a call of the present group ended. If no rank is lost,
  /// the connections are, or stand still: all members make new connections, in at most kMostRepeats recoveries without
  /// a step in between. Throws `failure` itself after them, and if a rank ended the group for all. If the store is
  /// lost, too, those that are left meet in the one that replaces it.
  void recover(const std::exception_ptr& failure);
  /// The members have made a step of their work since.
  void has_advanced() { repeats_ = 0; }
  /// Lets those who wait in, and connects to them. All members call it at the same place of their work.
  void admit();
  /// Whether a process waits to be let in: what the first member sees in the store, which it asks every 50 ms at most.
  /// The members must agree on the answer.
  bool someone_waits();
  /// As WorldAgreement::has_changed, for the present world.
  bool has_changed() { return agreement_.has_changed(world_); }
  /// As WorldAgreement::limit.
  void limit(int most) { agreement_.limit(most); }
  /// No more processes are needed. Any member may call it. If the store is lost, the launchers know it by the ends of
  /// the members.
  void close();
  /// This process has all that it needs of the others.
  void leave();

 private:
  RankWorld after(const std::exception_ptr& failure);
  RankWorld next_or_same(const std::exception_ptr& failure);
  void form(RankWorld next);
  void follow_store();
  RankWorld first_in_new_store(const StoreMove& move);
  bool connect();
  void give_up(int global_rank);

  Peer self_;
  WorldAgreement agreement_;
  RankWorld world_;
  const WorldPatience patience_;
  WorldLinks& links_;
  std::chrono::steady_clock::time_point looked_at_{};  // for processes that wait
  int repeats_ = 0;                                    // since the last step
};

}  // namespace lockstep

#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "lockstep/comm/communicator.h"
#include "lockstep/net/worlds/moving_store.h"
#include "lockstep/net/worlds/world_member.h"

namespace lockstep {

/// How long collectives of a process that joins wait: as those of the job's first ranks, for LOCKSTEP_TIMEOUT_S seconds
/// (`lockstep run --timeout`), else as the engine does by default.
std::chrono::milliseconds timeout_of_job(const std::string& engine);

/// A group whose ranks change while its processes live: the default group of a job that survives lost ranks. After a
/// failure `recover` forms a group of those that are left, and `admit` one with processes that joined. What the ranks
/// compute is their own matter; `ElasticProgress` and Trainer agree on it. One in a process, because a rank that has
/// left does not come back; one thread at a time.
class ElasticGroup : private WorldLinks {
 public:
  /// Takes over `group`, which is the default group.
  /// @param engine  of later groups; empty: the fastest that fits
  /// @throws UsageError  if no launcher is there that lets ranks survive, or this process has had such a group
  ElasticGroup(std::shared_ptr<Communicator> group, std::string engine);
  /// Enters the job in a process that takes a lost rank's place. `join` makes it a member. @param timeout  of
  /// collectives
  ElasticGroup(std::string engine, std::chrono::milliseconds timeout);
  ~ElasticGroup() override;
  ElasticGroup(const ElasticGroup&) = delete;
  ElasticGroup& operator=(const ElasticGroup&) = delete;

  /// Null before `join`.
  const std::shared_ptr<Communicator>& group() const { return group_; }
  /// How many groups there were before this one.
  std::int64_t number() const { return member_->world().number; }

  /// Reports to the launcher that this rank survives others from now on, so that it does not end the healthy ones.
  /// A process that joins does so when it can continue their work: if it ends before, no other one is started for it.
  void announce() const;
  /// Waits until the ranks let this process in, and forms a group with them.
  /// @throws Error  if they need no more ranks
  void join();
  /// Forms the next group after `failure`, with which a call of the present one ended. If no rank is lost, the same
  /// ranks make new connections. Throws `failure` itself if that has not helped: see WorldMember::recover.
  void recover(const std::exception_ptr& failure);
  /// The ranks have made a step of their work since.
  void has_advanced() { member_->has_advanced(); }
  /// Whether a process waits to be let in: what rank 0 sees in the store, which it asks every 50 ms at most. The ranks
  /// must agree on the answer.
  bool someone_waits() { return member_->someone_waits(); }
  /// As WorldMember::has_changed.
  bool has_changed() { return member_->has_changed(); }
  /// No more ranks than `most` are let in; those beyond wait until one is lost. Equal on all ranks.
  void limit(int most) { member_->limit(most); }
  /// Lets those who wait in, and forms a group with them. Collective: all ranks call it at the same place of their
  /// work.
  void admit();
  /// No more processes are needed. Any rank may call it.
  void close() { member_->close(); }
  /// This rank has all that it needs of the others; what they still do, they do without it.
  void leave() { member_->leave(); }

 private:
  void disconnect() override { set_group(nullptr); }
  void connect(const RankWorld& world) override;
  std::optional<StoreMove> follow_store() override;
  void end_process(int pid) override;
  void watch_store();
  void set_group(std::shared_ptr<Communicator> group);
  void use_group() const;

  std::string engine_;
  std::chrono::milliseconds timeout_;
  std::shared_ptr<Store> store_;  // of the job's ranks
  std::unique_ptr<WorldMember> member_;
  std::mutex mutex_;  // of group_, as another thread sees it
  std::shared_ptr<Communicator> group_;
  std::shared_ptr<MovingStore> moving_;  // below store_; null if the store does not move. Ends before the others
};

}  // namespace lockstep

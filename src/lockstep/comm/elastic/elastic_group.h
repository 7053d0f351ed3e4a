#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/comm/communicator.h"
#include "lockstep/net/worlds/world_agreement.h"

namespace lockstep {

/// Throws `failure` itself unless it says that the group ended because of a rank that is lost, has left, was not heard
/// of, or has failed: if one is lost, the others can form another group.
void require_lost_rank(const std::exception_ptr& failure);

/// A group whose ranks change while its processes live: the default group of a job that survives lost ranks. After a
/// failure `recover` forms a group of those that are left, and `admit` one with processes that joined. What the ranks
/// compute is their own matter; `elastic_loop` and Trainer agree on it. One in a process, because a rank that has left
/// does not come back; one thread at a time.
class ElasticGroup {
 public:
  /// Takes over `group`, which is the default group.
  /// @param engine  of later groups; empty: the fastest that fits
  /// @throws UsageError  if no launcher is there that lets ranks survive, or this process has had such a group
  ElasticGroup(std::shared_ptr<Communicator> group, std::string engine);
  /// Enters the job in a process that takes a lost rank's place. `join` makes it a member. @param timeout  of
  /// collectives
  ElasticGroup(std::string engine, std::chrono::milliseconds timeout);
  ElasticGroup(const ElasticGroup&) = delete;
  ElasticGroup& operator=(const ElasticGroup&) = delete;

  /// Null before `join`.
  const std::shared_ptr<Communicator>& group() const { return group_; }
  /// How many groups there were before this one.
  std::int64_t number() const { return world_.number; }

  /// Reports to the launcher that this rank survives others from now on, so that it does not end the healthy ones.
  /// After `join` that is done.
  void announce() const;
  /// Waits until the ranks let this process in, and forms a group with them.
  /// @throws Error  if they need no more ranks
  void join();
  /// Forms the next group after `failure`, with which a call of the present one ended. Throws `failure` itself if no
  /// rank is lost.
  void recover(const std::exception_ptr& failure);
  /// Whether a process waits to be let in: what rank 0 sees in the store, which it asks every 50 ms at most. The ranks
  /// must agree on the answer.
  bool someone_waits();
  /// Lets those who wait in, and forms a group with them. Collective: all ranks call it at the same place of their
  /// work.
  void admit();
  /// No more processes are needed. Any rank may call it.
  void close() { agreement_->close(); }
  /// This rank has all that it needs of the others; what they still do, they do without it.
  void leave() { agreement_->leave(); }

 private:
  void form(RankWorld next);
  bool connect();
  void give_up(int global_rank);
  Membership membership() const;

  std::string engine_;
  std::chrono::milliseconds timeout_;
  std::shared_ptr<Store> store_;  // of the job's ranks
  Peer self_;
  std::unique_ptr<WorldAgreement> agreement_;
  RankWorld world_;
  std::shared_ptr<Communicator> group_;
  std::chrono::steady_clock::time_point looked_at_{};  // for processes that wait
};

}  // namespace lockstep

#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/launch/nodes/node_group.h"
#include "lockstep/launch/process/signal_inbox.h"
#include "lockstep/launch/ranks/rank_group.h"

namespace lockstep {

/// One run of this node's ranks, from their start to the end of the last one.
class Attempt {
 public:
  Attempt(LauncherParts parts, NodeGroup& nodes, SignalInbox& signals);
  ~Attempt();
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  /// @throws Error  if a rank cannot be started
  void start(const std::vector<RankPlace>& places);
  /// Returns when all ranks of this node have ended, and the outcome of all nodes' ranks is known.
  void run();
  /// Ends the processes that ranks left running.
  void clean_up();

  /// The signal that asked the launcher to end, if one did.
  std::optional<int> signal() const { return signal_; }
  /// Nothing if a signal arrived first.
  const std::optional<Outcome>& outcome() const { return outcome_; }
  /// Empty if the failure that counts happened on this node.
  std::string story_of_other_node() const;
  const std::vector<RankEnd>& ends() const { return ranks_.ends(); }

 private:
  /// How far a failure of this node's ranks has come.
  enum class Phase {
    Running,      ///< there is none that others do not survive
    AwaitsCause,  ///< another rank's end may explain it
    Reported      ///< the other nodes know it
  };

  /// Whether the ranks end, or are to: of a failure here, of one elsewhere, or by a signal.
  bool is_over() const { return phase_ != Phase::Running || outcome_ || signal_; }
  void take_end(const RankEnd& end);
  bool is_survived(const RankEnd& end) const;
  void continue_without(const RankEnd& end);
  std::string survivors() const;
  void take_grants();
  void replace(const RankEnd& end, int member);
  void report_once_cause_is_known();
  void report_failure();
  void take_outcome();
  bool stop_was_asked_for();
  void take_signals();
  void pass_on(int warning);

  LauncherParts parts_;
  NodeGroup& nodes_;
  SignalInbox& signals_;
  RankGroup ranks_;
  EventLoop::Token signal_watch_ = 0;
  EventLoop::Token outcome_watch_ = 0;
  EventLoop::Token grant_watch_ = 0;
  std::deque<RankEnd> to_replace_;  // lost ranks for which a process was asked
  Phase phase_ = Phase::Running;
  bool urgent_ = false;
  Deadline report_at_ = Deadline::never();
  std::string own_story_;
  std::optional<int> signal_;
  std::chrono::steady_clock::time_point signal_time_;
  std::optional<Outcome> outcome_;
};

}  // namespace lockstep

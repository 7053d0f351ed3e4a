#pragma once

#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/launch/job_folder.h"
#include "lockstep/launch/plan.h"
#include "lockstep/launch/process/child_process.h"
#include "lockstep/launch/process/console.h"
#include "lockstep/launch/process/event_loop.h"
#include "lockstep/launch/process/orphan_guard.h"
#include "lockstep/launch/process/output_stream.h"
#include "lockstep/launch/process/process_table.h"
#include "lockstep/launch/ranks/cpu_share.h"
#include "lockstep/launch/ranks/rank_announcements.h"
#include "lockstep/launch/ranks/rank_end.h"
#include "lockstep/launch/ranks/rank_environment.h"
#include "lockstep/launch/ranks/rank_warnings.h"
#include "lockstep/launch/ranks/spare_ranks.h"

namespace lockstep {

/// The parts that a launcher has once for the whole job.
struct LauncherParts {
  const LaunchPlan& plan;
  EventLoop& loop;
  Console& out;
  Console& err;
  JobFolder& folder;
  OrphanGuard& guard;
  SpareRanks& spares;
  int memory;  ///< see net/worlds/job_memory.h; -1: none

  /// The launcher's own helper processes, which are not ranks.
  std::set<pid_t> helpers() const {
    std::set<pid_t> pids = spares.processes();
    pids.insert(guard.pid());
    return pids;
  }
};

/// The ranks of this node for one start, until the last one ends. The event loop carries their output.
class RankGroup {
 public:
  /// @param on_end  called for each rank that ended, in the order of their ends
  /// @param on_survival  called when all ranks have announced that they survive the loss of others, and when one more
  /// process has joined them
  RankGroup(LauncherParts parts, std::function<void(const RankEnd&)> on_end, std::function<void()> on_survival);
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  /// Starts one process for each place. @throws Error  if one cannot be started; then none remains
  void start(const std::vector<RankPlace>& places);
  /// Sends `signal` to the ranks that still run and to the processes that they started; SIGKILL after `grace`. A second
  /// call can only shorten the time.
  void stop(int signal, std::chrono::milliseconds grace);
  /// Sends a warning to the ranks that still run, and to the processes that they started. They may ignore it. A rank
  /// that has just started gets it when it handles the warning, or after 3 s.
  void warn(int signal) { warn_at_ = send_warning(ranks_, signal); }
  /// Starts a process that takes the place of a rank whose end the others survive: a warm spare if there is one.
  /// @throws Error  if it cannot be started
  void replace(const RankEnd& lost, int member);
  /// The others have survived the end of the rank that ended last.
  void note_survived() { ends_.back().survived = true; }
  /// Does what is due now.
  void act_on_time();
  Deadline next_deadline() const;
  /// The signal that `stop` sent and its receivers, and when SIGKILL is due; empty and never if `stop` was not called.
  const SentSignal& sent() const { return sent_; }
  Deadline kill_at() const { return kill_at_; }

  bool all_ended() const { return running_ == 0; }
  /// Ranks that run, without those that the others have not let in yet.
  int running_members() const { return lockstep::running_members(ranks_); }
  /// Processes that have taken lost ranks' places, whether they run or not.
  int joined_members() const;
  /// Whether a member has ended well: then it has the whole result.
  bool a_member_succeeded() const;
  /// Whether the rank that ended last had announced that the ranks survive each other.
  bool last_announced_survival() const;
  /// The files by which the ranks announce it.
  std::vector<std::string> survival_files() const;
  bool is_running(pid_t pid) const;
  /// @param rank  rank in the job
  bool is_running_rank(int rank) const;
  /// In the order of their ends.
  const std::vector<RankEnd>& ends() const { return ends_; }
  /// Passes on the last output.
  void finish_output();

 private:
  GroupRank& start_rank(const RankPlace& place, const NodeCores& node);
  GroupRank& that_ended(const RankEnd& end) const;
  void take_end(GroupRank& rank);
  void prepare_spares();
  void signal_all(int signal);
  void note_who_is_asked();
  void resume_output();

  LauncherParts parts_;
  std::function<void(const RankEnd&)> on_end_;
  GroupRanks ranks_;
  RankAnnouncements announcements_;
  std::vector<RankEnd> ends_;
  int running_ = 0;
  bool stopping_ = false;
  SentSignal sent_;
  Deadline kill_at_ = Deadline::never();
  Deadline act_at_ = Deadline::never();
  Deadline prepare_at_ = Deadline::never();  // when to load spares for the next start
  Deadline warn_at_ = Deadline::never();     // when to see which ranks can take a warning
};

}  // namespace lockstep

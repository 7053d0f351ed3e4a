#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <vector>

#include "tools/chaos/disturbed_run.h"
#include "tools/chaos/job_on_hosts.h"

namespace lockstep {

/// Which processes and hosts of a job a fault may hit: one that has the training's state must remain.
class FaultTargets {
 public:
  /// @param job  must outlive this object
  explicit FaultTargets(const JobOnHosts& job) : job_(job) {}

  /// A process has joined the ranks.
  void note_joined(pid_t pid) { joined_[pid] = 0; }
  /// The training has made steps.
  void note_steps();
  /// The others continue without this member.
  void give_up(pid_t pid) { given_up_.insert(pid); }
  /// All ranks start again.
  void start_over() { joined_.clear(); }

  bool is_member(const ChildOfLauncher& process) const;
  std::vector<JobOnHosts::Process> members() const;
  std::vector<JobOnHosts::Process> processes(Fault fault) const;
  /// Each has members, and another one has the training's state. One of two hosts would end if the other one, which
  /// serves the rendezvous, were cut off.
  std::vector<int> hosts(Fault fault) const;

 private:
  bool has_state(const ChildOfLauncher& process) const;

  const JobOnHosts& job_;
  std::map<pid_t, int> joined_;  // with the number of times since then that the training has made steps
  std::set<pid_t> given_up_;     // members that may live, without the others
};

}  // namespace lockstep

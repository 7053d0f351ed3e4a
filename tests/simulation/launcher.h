#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/simulation/rank.h"

namespace lockstep::simulation {

/// Starts the processes of a simulated job, notices their ends, reports them to the store, and starts successors, as
/// `lockstep run` does on each host. If the host is lost that serves the store, the next one serves it. Keeps what
/// became of each process.
class Launcher {
 public:
  explicit Launcher(JobParts& job) : job_(job) {}
  /// Ends the processes that still live.
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  void start();
  /// Whether no process of the job runs any more. One that stands still forever does not run, and if only such members
  /// are left, nobody lets in those who wait.
  bool all_ended() const;
  /// The launcher that serves the store is killed, and with it the processes of its host.
  void lose_server();
  /// The host that serves the store is cut off for good. The others must be more than half of the hosts.
  void cut_server_off();
  bool may_cut_server_off() const { return may_lose_server() && living_hosts() >= 3; }
  bool may_lose_server() const { return !is_moving_ && living_hosts() >= 2; }
  /// Processes that run, by their numbers.
  std::vector<int> living() const;
  Process& process(int number) { return *children_.at(static_cast<std::size_t>(number)).process; }
  Rank& rank(int number) { return *children_.at(static_cast<std::size_t>(number)).rank; }
  /// How many running members have the training's state.
  int with_state() const;
  /// How many of them are on another host than the one that serves the store.
  int with_state_elsewhere() const;

  int started() const { return static_cast<int>(children_.size()); }
  int finished() const;
  /// What each running process waits for, for the report of a job that stands still.
  std::string standing_still() const;

 private:
  struct Child {
    std::unique_ptr<Process> process;
    std::unique_ptr<Rank> rank;
    bool was_asked = false;     // to end, by the launcher
    bool end_is_known = false;  // to the launcher
  };

  void start_process(int host, RankWorld world, Time delay);
  void note_end(int number);
  void take_end(int number);
  void start_successor(int host, Time delay);
  int living_hosts() const { return job_.shape.hosts - static_cast<int>(dead_hosts_.size()); }
  void lose_host(int host);
  void take_over();
  bool has_state(const Child& child) const;
  void check_end(const Child& child);
  void end_those_at_the_door();
  bool a_member_runs() const;
  bool is_needless(const Rank& rank) const;
  bool was_left_at_the_door(const Rank& rank) const;
  void end_given_up(int number);
  static bool runs(const Child& child) { return child.process->lives() && !child.process->is_frozen(); }

  JobParts& job_;
  std::vector<Child> children_;
  int successors_ = 0;
  std::set<int> dead_hosts_;
  bool is_moving_ = false;  // no host serves the store
};

}  // namespace lockstep::simulation

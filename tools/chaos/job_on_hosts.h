// The launchers of one job: one on this machine, or one on each of several hosts, which may be lost and come back.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/chaos/launched_job.h"
#include "tools/hosts/network_hosts.h"

namespace lockstep {

/// How a job is launched.
struct JobCommand {
  /// A launcher's command line. @param endpoint  of the rendezvous; empty on one host
  std::function<std::vector<std::string>(const std::string& endpoint)> words;
  std::string log;                      ///< path at which the names of new files begin, one for each launcher
  const NetworkHosts* hosts = nullptr;  ///< null: this machine. Else one host more than the job has at a time
};

class JobOnHosts {
 public:
  struct Process : ChildOfLauncher {
    int host = 0;
  };

  /// Starts a launcher on each host but the last one. @throws Error  if one cannot be started
  explicit JobOnHosts(const JobCommand& command);
  ~JobOnHosts();
  JobOnHosts(const JobOnHosts&) = delete;
  JobOnHosts& operator=(const JobOnHosts&) = delete;

  /// Waits for the end of a launcher, at most for `time`. @return  whether the job has ended
  bool ends_within(std::chrono::milliseconds time);
  /// What went wrong with a job that has ended; nothing if it ended well.
  const std::optional<std::string>& failure() const { return failure_; }
  /// Ranks, spares and successors that run.
  std::vector<Process> processes() const;
  /// @return  false if the process has ended
  bool send(const Process& process, int signal) const;
  struct Line {
    std::string text;
    int host = 0;
  };
  /// The whole lines that all launchers have logged since the last call.
  std::vector<Line> new_lines();

  /// Hosts whose launcher runs and whose link is up.
  std::vector<int> running_hosts() const;
  /// @return  -1 if there is none
  int host_named(const std::string& name) const;
  bool serves_rendezvous(int host) const { return host == serving_; }
  /// Kills the launcher of a host.
  void lose(int host);
  /// Starts a launcher on the host that has been without one for longest.
  void add_host();
  void set_link(int host, bool up);

 private:
  using Clock = std::chrono::steady_clock;
  struct Place {
    std::unique_ptr<LaunchedJob> job;
    int starts = 0;
    Clock::time_point free_since{};
    bool is_cut = false;
    Clock::time_point excused_until{};  // its launcher may fail until then
  };

  void start(int host);
  void take_end(int host);
  void keep_lines(int host);
  void read_serving_host(const std::string& line);
  bool is_running(const Place& place) const { return place.job != nullptr; }
  Place& place_of(int host) { return places_[static_cast<std::size_t>(host)]; }

  const JobCommand& command_;
  std::vector<Place> places_;
  std::string endpoint_;
  int serving_ = 0;
  std::vector<Line> last_lines_;  // of launchers that have ended
  std::optional<std::string> failure_;
  std::optional<Clock::time_point> over_since_;  // a launcher ended well
};

}  // namespace lockstep

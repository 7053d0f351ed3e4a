// A launcher of `lockstep run` as somebody sees it who may only look at its processes, its log, and send signals.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/files/unique_fd.h"
#include "lockstep/launch/process/child_process.h"
#include "lockstep/launch/process/exit_status.h"

namespace lockstep {

/// A running process of a job, from its environment in /proc.
struct ChildOfLauncher {
  pid_t pid = -1;
  bool is_successor = false;  ///< it waits to take a lost rank's place, or has taken one; else a rank from the start
  std::string survival_file;  ///< that it makes when it begins to survive the loss of others; empty for a spare
};

/// The launcher is killed when the object goes; its guard then ends the ranks.
class LaunchedJob {
 public:
  /// @param words  the launcher's command line. Both its streams are written to the new file `log`
  /// @throws Error  if it cannot be started
  LaunchedJob(std::vector<std::string> words, const std::string& log);
  ~LaunchedJob();
  LaunchedJob(const LaunchedJob&) = delete;
  LaunchedJob& operator=(const LaunchedJob&) = delete;

  /// Readable once the launcher has ended.
  int ended_fd() const { return launcher_.pidfd.get(); }
  /// How it ended. Waits for it. Call it once.
  ExitStatus status();
  /// Ranks, spares and successors that run: children of the launcher alone.
  std::vector<ChildOfLauncher> processes() const;
  /// Sends a signal to a child of the launcher. @return  false if there is no such child any more
  bool send(pid_t pid, int signal) const;
  /// The whole lines that were logged since the last call.
  std::vector<std::string> new_lines();

 private:
  ChildProcess launcher_;
  UniqueFd log_;
  std::string partial_;
};

}  // namespace lockstep

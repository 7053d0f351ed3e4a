// A job of `lockstep bench restart`: a launcher with ranks that train, read as it prints.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/unique_fd.h"

namespace lockstep {

class RestartJob {
 public:
  using Clock = std::chrono::steady_clock;

  /// Starts it. @param command  the launcher's, without its last arguments: the folder, and steps between two saves
  RestartJob(std::vector<std::string> command, const std::string& folder);
  /// Ends it with all its processes.
  ~RestartJob();
  RestartJob(const RestartJob&) = delete;
  RestartJob& operator=(const RestartJob&) = delete;

  /// Kills the last rank once step `after` is done, and `sign` was printed where it is not empty.
  /// @return  seconds until the first step of the next start
  /// @throws Error  if the job ends, does nothing for a minute, or starts anew from step 1
  double seconds_to_next_step(long after, const std::string& sign);

 private:
  std::string next_line();
  void take(const std::string& line);

  std::vector<std::string> command_;
  pid_t pid_ = -1;
  UniqueFd output_;
  std::string text_;               // that was read, up to the next line
  std::vector<std::string> last_;  // lines, for errors
  pid_t last_rank_ = -1;
  int starts_ = 0;  // of rank 0
  long step_ = 0;
};

}  // namespace lockstep

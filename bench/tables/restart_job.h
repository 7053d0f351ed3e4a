// A job of `lockstep bench restart`: a launcher with ranks that train, read as it prints.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// What the ranks print.
enum class RankOutput {
  Worker,   ///< bench/workers/restart_worker.cpp and its Python twin: "rank R pid P", "step N"
  Training  ///< `lockstep train` that logs each step, kStepsPerEpoch of which make an epoch
};

class RestartJob {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr int kStepsPerSave = 20;
  static constexpr int kStepsPerEpoch = 100;

  /// Starts it. @param ranks  of the job
  RestartJob(std::vector<std::string> command, int ranks, RankOutput output);
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

  void take_worker(const std::string& line);
  void take_training(const std::string& line);
  pid_t last_rank() const;

  std::vector<std::string> command_;
  int ranks_;
  RankOutput format_;
  pid_t pid_ = -1;
  UniqueFd output_;
  std::string text_;               // that was read, up to the next line
  std::vector<std::string> last_;  // lines, for errors
  pid_t last_rank_ = -1;           // as it said itself
  int starts_ = 0;                 // of rank 0
  long step_ = 0;
};

}  // namespace lockstep

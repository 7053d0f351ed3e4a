// A job of `lockstep bench restart`: a launcher whose ranks train, and whose output is read meanwhile.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "bench/measure/job_process.h"

namespace lockstep {

/// The format of the ranks' output.
enum class RankOutput {
  Worker,   ///< bench/workers/restart_worker.cpp and its Python twin: "rank R pid P", "step N"
  Training  ///< `lockstep train`, which logs each step; kStepsPerEpoch steps make an epoch
};

class RestartJob {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr int kStepsPerSave = 20;
  static constexpr int kStepsPerEpoch = 100;

  /// Starts the job, which ends with this object. @param ranks  number of ranks
  RestartJob(std::vector<std::string> command, int ranks, RankOutput output);

  /// Kills the last rank after step `after`, and after `sign` was printed unless it is empty.
  /// @return  seconds until the first step after the restart
  /// @throws Error  if the job ends, prints nothing for a minute, or starts over from step 1
  double seconds_to_next_step(long after, const std::string& sign);

 private:
  void take(const std::string& line);

  void take_worker(const std::string& line);
  void take_training(const std::string& line);
  pid_t last_rank() const;

  JobProcess job_;
  int ranks_;
  RankOutput format_;
  pid_t last_rank_ = -1;  // as the rank reported it
  int starts_ = 0;        // of rank 0
  long step_ = 0;
};

}  // namespace lockstep

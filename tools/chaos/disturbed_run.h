// One training under `lockstep run`, and what is done to its ranks and hosts meanwhile.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tools/chaos/fault.h"
#include "tools/chaos/job_on_hosts.h"

namespace lockstep {

/// Counts and waits of one run, or the sums of several.
struct ChaosCounts {
  std::map<Fault, int> faults;
  int runs = 0;
  int failed = 0;                     ///< runs that failed or stood still
  int restarts = 0;                   ///< of all ranks, without those that continued from memory after Fault::All
  int from_memory = 0;                ///< those
  int unexplained = 0;                ///< ranks that ended by themselves and were lost
  std::vector<double> waited_ms;      ///< of each recovery: from the first rank's notice of a loss until it continued
  std::vector<double> after_loss_ms;  ///< from a fault that ends connections until the survivors continued
  std::vector<double> after_silence_ms;  ///< from a fault that only a timeout shows
  std::deque<std::string> last_lines;    ///< of the log
  std::string problem;                   ///< of the first failed run; empty: none

  int all_faults() const;
  /// Faults that did not end in a restart of all ranks, or in a failure.
  int survived() const { return std::max(0, all_faults() - restarts - failed - unexplained); }
};

struct DisturbedRun {
  JobCommand job;
  std::string metrics;    ///< path of the file that grows with the training's steps
  std::string fault_log;  ///< path of a new file, which gets a line for each fault
  int ranks = 0;          ///< of all hosts
  int faults = 0;         ///< at most; 0: undisturbed
  std::vector<Fault> kinds;
  std::chrono::milliseconds interval{};  ///< mean time between faults
  std::chrono::milliseconds timeout{};   ///< after which silent hosts, and ranks, are given up
  std::chrono::milliseconds patience{};  ///< without any sign of life, after which the run is ended
  std::function<void(const ChaosCounts&)> on_fault;
};

/// Runs the training once, and adds what was seen to `counts`.
/// @param random  chooses moments, kinds and ranks
/// @throws Error  after SIGINT or SIGTERM to this process, once `stop_on_signals` was called
void run_disturbed(const DisturbedRun& run, std::mt19937_64& random, ChaosCounts& counts);

/// From now on SIGINT and SIGTERM end a run by an Error, so that what it started is ended, too.
void stop_on_signals();

}  // namespace lockstep

#pragma once

#include <array>
#include <string>

#include "tests/simulation/launcher.h"

namespace lockstep::simulation {

enum class FaultKind { Kill, KillAtPoint, Pause, Stop, Cut, Slow, Connection, LoseServer, CutServerOff, Hold };
constexpr std::array<const char*, 10> kFaultNames{
    "kill at a time", "kill at a message", "pause",      "stop until given up", "cut link",
    "slow network",   "failed connection", "store lost", "store cut off",       "messages held"};
constexpr std::size_t kFaultsOfProcesses = 7;  // the first ones

/// Disturbs a job by what its seed chooses: some faults, often in bursts, so that they hit a recovery.
class Faults {
 public:
  Faults(JobParts& job, Launcher& launcher, int count, bool holds);

  /// When the last fault is over.
  Time over_at() const { return over_at_; }
  const std::array<int, kFaultNames.size()>& counts() const { return counts_; }

 private:
  void plan_next(int left, Time delay);
  void plan_loss_of_server(Time delay);
  void plan_hold(Random& random, Time delay);
  void lose_server();
  void act();
  void hit(FaultKind kind, int number);
  void lasts(Time time);
  void excuse(int number);

  JobParts& job_;
  Launcher& launcher_;
  Time over_at_{0};
  std::array<int, kFaultNames.size()> counts_{};
};

/// The outcome of one seed.
struct Outcome {
  std::string violation;  ///< empty: all held
  std::vector<std::string> schedule;
  std::array<int, kFaultNames.size()> faults{};
  std::size_t groups = 0;
  int started = 0;
  int finished = 0;
  std::uint64_t events = 0;
};

/// Simulates the job that `seed` chooses, to its end.
/// @param holds  on several hosts messages stand still for longer than the timeout, too, while no process does
Outcome simulate(std::uint64_t seed, bool keeps_schedule, bool holds);

}  // namespace lockstep::simulation

#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tests/simulation/fiber.h"
#include "tests/simulation/simulation.h"

namespace lockstep::simulation {

/// Thrown within a process that was killed, so that its stack is unwound. Not an exception that code handles.
struct Killed {};

/// A simulated process. It runs whenever the simulation wakes it, until it waits again.
class Process {
 public:
  /// @param program  what it does; throws nothing but Killed
  /// @param on_end   called once it has ended, in whatever way
  Process(Simulation& simulation, int number, int host, std::function<void()> program, std::function<void()> on_end);

  int number() const { return number_; }
  int host() const { return host_; }
  std::string name() const { return "process " + std::to_string(number_); }
  bool lives() const { return !fiber_.has_ended(); }
  bool was_killed() const { return is_killed_; }

  void start(Time delay);
  /// SIGKILL. A process may kill itself, which takes effect at its next wait.
  void kill();
  /// SIGSTOP, and SIGCONT after `time`.
  void stop(Time time);
  bool stands_still() const { return simulation_.now() < stopped_until_; }
  /// It stands still for longer than any job lasts.
  bool is_frozen() const { return simulation_.now() + kForever / 2 < stopped_until_; }
  static constexpr Time kForever = std::chrono::hours(24);

  /// From within the program:
  void sleep(Time time);
  /// Waits for `wake`.
  void park();
  /// Ends the program if it was killed.
  void check() const {
    if (is_killed_) throw Killed{};
  }

  /// The number of the next `park`; a `wake` for an earlier one has no effect.
  std::uint64_t next_park() const { return parks_; }
  void wake(std::uint64_t park);

  /// The process whose program runs; null: none.
  static Process* current();

 private:
  void run();

  Simulation& simulation_;
  const int number_;
  const int host_;
  std::function<void()> program_;
  std::function<void()> on_end_;
  Fiber fiber_;
  std::uint64_t parks_ = 0;
  Time stopped_until_{0};
  bool is_killed_ = false;
  bool has_started_ = false;
};

}  // namespace lockstep::simulation

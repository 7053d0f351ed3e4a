#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/random_numbers.h"

namespace lockstep::simulation {

using Time = std::chrono::nanoseconds;
using std::chrono::microseconds;
using std::chrono::milliseconds;

/// A clock that moves from one event to the next one. While a simulation lives, it is the clock of this program: code
/// that reads std::chrono::steady_clock, or sleeps, sees simulated time (simulated_time.cpp). One at a time.
class Simulation {
 public:
  /// @param keeps_notes  for `notes`; they take time
  Simulation(std::uint64_t seed, bool keeps_notes);
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  Time now() const { return now_; }
  Random& random() { return random_; }
  void after(Time delay, std::function<void()> action);
  /// Runs the next event. @return  false if there is no event, or the next one is later than `end`
  bool step(Time end);
  std::uint64_t events() const { return events_; }

  /// A line of the schedule, for a reader.
  template <class Text>
  void note(const Text& text) {
    if (keeps_notes_) keep_note(text());
  }
  const std::vector<std::string>& notes() const { return notes_; }

  /// The first thing that must not be: the simulation is to end.
  void fail(const std::string& violation);
  const std::string& violation() const { return violation_; }

  /// The simulation whose clock the program has; null: none.
  static Simulation* current();

 private:
  void keep_note(const std::string& text);

  Random random_;
  Time now_{0};
  std::uint64_t events_ = 0;
  std::uint64_t next_number_ = 0;
  std::map<std::pair<Time, std::uint64_t>, std::function<void()>> queue_;  // by time, then in the order of `after`
  const bool keeps_notes_;
  std::vector<std::string> notes_;
  std::string violation_;
};

}  // namespace lockstep::simulation

#pragma once

#include <chrono>
#include <map>
#include <string>
#include <utility>

namespace lockstep {

/// Where the time of a training goes: seconds by phase, each from one call to the next. Not thread-safe.
class PhaseClock {
 public:
  /// What ended here was `phase`.
  void end(const std::string& phase) {
    const auto now = std::chrono::steady_clock::now();
    seconds_[phase] += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }
  /// Counts from here on; what came before belongs to no phase.
  void start() { last_ = std::chrono::steady_clock::now(); }
  /// The seconds since the last call.
  std::map<std::string, double> take() { return std::exchange(seconds_, {}); }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  std::map<std::string, double> seconds_;
};

}  // namespace lockstep

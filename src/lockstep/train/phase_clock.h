#pragma once

#include <chrono>
#include <map>
#include <string>
#include <utility>

namespace lockstep {

/// Measures the time of a training by phase, in seconds. Each phase lasts from one call to the next. Not thread-safe.
class PhaseClock {
 public:
  /// The phase that ends now was `phase`.
  void end(const std::string& phase) {
    const auto now = std::chrono::steady_clock::now();
    seconds_[phase] += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }
  /// Counts from now on; earlier time belongs to no phase.
  void start() { last_ = std::chrono::steady_clock::now(); }
  /// The seconds since the last call of `take`.
  std::map<std::string, double> take() { return std::exchange(seconds_, {}); }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  std::map<std::string, double> seconds_;
};

}  // namespace lockstep

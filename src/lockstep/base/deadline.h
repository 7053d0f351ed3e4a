#pragma once

#include <algorithm>
#include <chrono>

namespace lockstep {

/// A point in time by which a wait must end. Passed down by value, so that a chain of waits shares one limit.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  /// Ends `timeout` from now. A negative or huge timeout never ends.
  static Deadline after(std::chrono::milliseconds timeout) {
    constexpr auto kLongest = std::chrono::hours(24 * 365);
    if (timeout.count() < 0 || timeout > kLongest) return never();
    return Deadline(Clock::now() + timeout);
  }
  static Deadline never() { return Deadline(Clock::time_point::max()); }

  bool passed() const { return !is_never() && Clock::now() >= at_; }
  bool is_never() const { return at_ == Clock::time_point::max(); }
  Clock::time_point at() const { return at_; }

  /// Time left, at least zero; a day where the deadline is never, which every caller waits for in a loop.
  std::chrono::milliseconds remaining() const {
    if (is_never()) return std::chrono::hours(24);
    return std::max(std::chrono::milliseconds(0), std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now()));
  }
  /// The same for poll(2).
  int poll_timeout_ms() const { return static_cast<int>(remaining().count()); }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

}  // namespace lockstep

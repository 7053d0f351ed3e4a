#pragma once

#include <atomic>
#include <chrono>

namespace lockstep {

/// The time until which deadlines hold at least, whatever timeout they were made with. The code that learns that a wait
/// is worth continuing moves this time later. Thread-safe.
class DeadlineExtension {
 public:
  using Clock = std::chrono::steady_clock;

  Clock::time_point at() const { return Clock::time_point(Clock::duration(at_.load(std::memory_order_relaxed))); }

  /// No deadline with this extension passes before `time`. An earlier time changes nothing.
  void extend_until(Clock::time_point time) {
    const Clock::rep wanted = time.time_since_epoch().count();
    Clock::rep known = at_.load(std::memory_order_relaxed);
    while (known < wanted && !at_.compare_exchange_weak(known, wanted, std::memory_order_relaxed)) {
    }
  }

 private:
  std::atomic<Clock::rep> at_{Clock::time_point::min().time_since_epoch().count()};
};

}  // namespace lockstep

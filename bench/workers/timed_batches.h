// The batches of a training loop that is measured.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "bench/workers/resident_memory.h"
#include "lockstep/models/model.h"

namespace lockstep {

/// The number of measured steps: `most`, or, if `seconds` is given, as many as fit in that time, but at least three.
struct MeasuredSteps {
  int warm_up = 3;  ///< preceding steps, which are not counted
  int most = 20;
  double seconds = 0;
};

/// Yields one batch repeatedly, for an ordinary loop:
///
///     for (const Batch& batch : batches) {…}     // one step
///
/// Records the time of each step, and the memory while the model still exists. One loop, one thread.
class TimedBatches {
 public:
  struct End {};
  class Iterator {
   public:
    explicit Iterator(TimedBatches* batches) : batches_(batches) {}
    const Batch& operator*() const { return batches_->batch_; }
    Iterator& operator++() {
      batches_->note_step();
      return *this;
    }
    bool operator!=(End) const { return !batches_->done_; }

   private:
    TimedBatches* batches_;
  };

  TimedBatches(Batch batch, MeasuredSteps measured) : batch_(std::move(batch)), measured_(measured) {}

  Iterator begin() {
    measuring_began_ = step_began_ = Clock::now();
    return Iterator(this);
  }
  End end() const { return {}; }

  int steps() const { return static_cast<int>(times_ms_.size()); }
  /// The median of the measured steps' times; call it after the loop.
  double median_ms() const {
    std::vector<double> times = times_ms_;
    std::nth_element(times.begin(), times.begin() + steps() / 2, times.end());
    return times[static_cast<std::size_t>(steps() / 2)];
  }
  const ResidentMemory& memory() const { return memory_; }

 private:
  using Clock = std::chrono::steady_clock;

  void note_step() {
    const Clock::time_point now = Clock::now();
    if (count_++ >= measured_.warm_up) {
      times_ms_.push_back(std::chrono::duration<double, std::milli>(now - step_began_).count());
    } else {
      measuring_began_ = now;
    }
    done_ = is_last(now);
    if (done_) memory_ = resident_memory();
    step_began_ = Clock::now();
  }

  bool is_last(Clock::time_point now) const {
    if (steps() >= measured_.most) return true;
    if (measured_.seconds <= 0 || steps() < kFewestSteps) return false;
    return std::chrono::duration<double>(now - measuring_began_).count() >= measured_.seconds;
  }

  static constexpr int kFewestSteps = 3;

  Batch batch_;
  MeasuredSteps measured_;
  int count_ = 0;
  bool done_ = false;
  Clock::time_point step_began_;
  Clock::time_point measuring_began_;
  std::vector<double> times_ms_;
  ResidentMemory memory_;
};

}  // namespace lockstep

#pragma once

#include <algorithm>
#include <chrono>

#include "lockstep/base/deadline.h"

namespace lockstep {

/// When a wait that lasts is told to the log: after a minute, or half of its time where that is less, and then each
/// time that it has lasted twice as long. So a wait of half an hour says five times that it still lasts.
class SlowNotice {
 public:
  explicit SlowNotice(std::chrono::milliseconds timeout)
      : next_(std::min<std::chrono::milliseconds>(std::chrono::minutes(1), timeout / 2)) {}
  explicit SlowNotice(const Deadline& deadline) : SlowNotice(deadline.remaining()) {}

  /// Whether a wait that has lasted for `waited` is to be told now: true once for each time.
  bool due(Deadline::Clock::duration waited) {
    if (waited < next_) return false;
    while (next_ <= waited) next_ = std::max(2 * next_, std::chrono::milliseconds(1));
    return true;
  }
  /// How long a wait will have lasted when it is told next.
  std::chrono::milliseconds next() const { return next_; }

 private:
  std::chrono::milliseconds next_;
};

}  // namespace lockstep

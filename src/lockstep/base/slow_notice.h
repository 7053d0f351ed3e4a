#pragma once

#include <algorithm>
#include <chrono>

#include "lockstep/base/deadline.h"

namespace lockstep {

/// When to log that a wait still lasts: after a minute, or after half of its time limit if that is less, and then each
/// time its length has doubled. A wait with a limit of half an hour is logged five times.
class SlowNotice {
 public:
  explicit SlowNotice(std::chrono::milliseconds timeout)
      : next_(std::min<std::chrono::milliseconds>(std::chrono::minutes(1), timeout / 2)) {}
  explicit SlowNotice(const Deadline& deadline) : SlowNotice(deadline.remaining()) {}

  /// Whether to log now a wait that has lasted for `waited`: true once for each notice.
  bool due(Deadline::Clock::duration waited) {
    if (waited < next_) return false;
    while (next_ <= waited) next_ = std::max(2 * next_, std::chrono::milliseconds(1));
    return true;
  }
  /// How long the wait will have lasted at the next notice.
  std::chrono::milliseconds next() const { return next_; }

 private:
  std::chrono::milliseconds next_;
};

}  // namespace lockstep

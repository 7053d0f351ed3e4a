#pragma once

#include <functional>
#include <optional>

#include "lockstep/base/deadline.h"
#include "lockstep/comm/shm/group.h"

namespace lockstep::shm {

/// Looks at whether an operation is over, as those of `while (!work->is_completed())`. Together they are one wait,
/// whose limit counts from the first of them. A look that comes later than the limit after the one before begins a new
/// wait: its thread did something else meanwhile.
class Looks {
 public:
  /// Counts one more. @param limit  the deadline of a wait that begins now
  void count(const std::function<Deadline()>& limit) {
    const Deadline next = limit();
    if (!wait_ || last_.passed()) {
      deadline_ = next;
      wait_.emplace(Group::Wait{Deadline::Clock::now(), SlowNotice(next)});
    }
    last_ = next;
  }

  const Deadline& deadline() const { return deadline_; }
  /// After the first look.
  Group::Wait& wait() { return *wait_; }

 private:
  std::optional<Group::Wait> wait_;
  Deadline deadline_ = Deadline::never();
  Deadline last_ = Deadline::never();  // by when the next look must come to belong to these
};

}  // namespace lockstep::shm

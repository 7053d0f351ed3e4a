#pragma once

#include <functional>
#include <optional>

#include "lockstep/base/deadline.h"
#include "lockstep/comm/shm/group.h"

namespace lockstep::shm {

/// Polls whether an operation is over, as in `while (!work->is_completed())`. Together they count as one wait, whose
/// limit runs from the first of them. A poll that follows the previous one by more than the limit starts a new wait:
/// its thread did something else meanwhile.
class Looks {
 public:
  /// Counts one more poll. @param limit  returns the deadline of a wait that begins now
  void count(const std::function<Deadline()>& limit) {
    const Deadline next = limit();
    if (!wait_ || last_.passed()) {
      deadline_ = next;
      wait_.emplace(Group::Wait{Deadline::Clock::now(), SlowNotice(next)});
    }
    last_ = next;
  }

  const Deadline& deadline() const { return deadline_; }
  /// Valid after the first poll.
  Group::Wait& wait() { return *wait_; }

 private:
  std::optional<Group::Wait> wait_;
  Deadline deadline_ = Deadline::never();
  Deadline last_ = Deadline::never();  // the next poll must arrive by then to belong to this wait
};

}  // namespace lockstep::shm

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/net/membership.h"
#include "lockstep/net/patience.h"

namespace lockstep {

/// While it lives, this rank does something that other ranks of the group wait for in a collective, and that may take
/// longer than the group's timeout: they wait on as long as this process lives, and its log says now and then that the
/// work goes on.
///
///     if (group->rank() == 0) {
///       const LongWork work(group->membership(), "validating");
///       validate(model);
///     }
///     group->barrier();
///
/// It must not enclose a collective call: a rank that waits itself would keep the others waiting.
class LongWork {
 public:
  /// @param what  for logs, "saving the model"
  LongWork(const Membership& membership, const std::string& what, WorkLog log = WorkLog::Told)
      : patience_(membership.patience) {
    if (patience_) number_ = patience_->begin(what, log);
  }
  ~LongWork() {
    if (patience_) patience_->end(number_);
  }
  LongWork(const LongWork&) = delete;
  LongWork& operator=(const LongWork&) = delete;

 private:
  std::shared_ptr<Patience> patience_;  // null: nobody waits
  std::uint64_t number_ = 0;
};

}  // namespace lockstep

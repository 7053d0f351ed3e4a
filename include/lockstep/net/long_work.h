#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/net/membership.h"

namespace lockstep {

/// Whether the log of the rank that works says now and then that it still does.
enum class WorkLog {
  Told,  ///< at level warning on rank 0 of the group, at level info on others
  Quiet  ///< it shows in another way how far it is, or nobody waits for it
};

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
  LongWork(const Membership& membership, const std::string& what, WorkLog log = WorkLog::Told);
  ~LongWork();
  LongWork(const LongWork&) = delete;
  LongWork& operator=(const LongWork&) = delete;

 private:
  std::shared_ptr<Patience> patience_;  // null: nobody waits
  std::uint64_t number_ = 0;
};

}  // namespace lockstep

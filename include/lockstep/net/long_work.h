#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/detail/net/membership.h"

namespace lockstep {

/// Whether the working rank logs at intervals that it is still busy.
enum class WorkLog {
  Told,  ///< at level warning on rank 0 of the group, at level info on others
  Quiet  ///< the work reports its progress in another way, or no rank waits for it
};

/// While this object lives, its rank does work that other ranks of the group wait for in a collective and that may take
/// longer than the group's timeout. The others keep waiting as long as this process lives, and its log reports at
/// intervals that the work continues.
///
///     if (group->rank() == 0) {
///       const LongWork work(group->membership(), "validating");
///       validate(model);
///     }
///     group->barrier();
///
/// The work must not contain a collective call: a rank that itself waits would keep the others waiting.
class LongWork {
 public:
  /// @param what  the work's name in logs, such as "saving the model"
  LongWork(const Membership& membership, const std::string& what, WorkLog log = WorkLog::Told);
  ~LongWork();
  LongWork(const LongWork&) = delete;
  LongWork& operator=(const LongWork&) = delete;

 private:
  std::shared_ptr<Patience> patience_;  // null: no rank waits
  std::uint64_t number_ = 0;
};

}  // namespace lockstep

#pragma once

#include <cstdint>

#include "lockstep/detail/comm/work.h"

namespace lockstep {

/// Work that knows when it ended.
class TimedWork : public Work {
 public:
  /// After `wait`: when the operation ended, in nanoseconds of the steady clock; 0 if no trace was on then.
  virtual std::int64_t ended_ns() = 0;
};

}  // namespace lockstep

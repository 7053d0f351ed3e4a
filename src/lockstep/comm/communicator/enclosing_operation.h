#pragma once

#include <cstdint>

#include "lockstep/detail/comm/operation.h"

namespace lockstep {

/// Marks the collectives that this thread calls in this scope as steps of a larger one. Each call takes the mark with
/// it (Operation::enclosing_mark). Engines include it in the values that ranks compare, so ranks whose steps look alike
/// but belong to different operations notice it.
class EnclosingOperation {
 public:
  explicit EnclosingOperation(const Fingerprint& whole);
  ~EnclosingOperation();
  EnclosingOperation(const EnclosingOperation&) = delete;
  EnclosingOperation& operator=(const EnclosingOperation&) = delete;

  /// The mark of this thread; 0 outside of any scope.
  static std::uint32_t mark();
};

}  // namespace lockstep

#pragma once

#include <cstdint>

#include "lockstep/comm/operation.h"

namespace lockstep {

/// Marks the collectives that this thread makes in this scope as steps of a larger one. Engines include the mark in the
/// values that ranks compare, so ranks whose steps look alike but belong to different operations notice it. Steps must
/// run in the calling thread, which they do if nothing else is queued.
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

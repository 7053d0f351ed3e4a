#pragma once

#include <cstdint>

#include "lockstep/comm/operation.h"

namespace lockstep {

/// Marks the collectives that this thread makes in this scope as steps of a larger one. Engines put the mark into what
/// ranks compare: ranks whose steps happen to look alike, but that mean different operations, find out. Steps must run
/// in the calling thread, as they do where nothing else is queued.
class EnclosingOperation {
 public:
  explicit EnclosingOperation(const Fingerprint& whole);
  ~EnclosingOperation();
  EnclosingOperation(const EnclosingOperation&) = delete;
  EnclosingOperation& operator=(const EnclosingOperation&) = delete;

  /// That of this thread; 0 outside of any.
  static std::uint32_t mark();
};

}  // namespace lockstep

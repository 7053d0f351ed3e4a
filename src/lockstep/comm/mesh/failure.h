#pragma once

#include <string>

#include "lockstep/base/failure_cause.h"

namespace lockstep {

/// Why a group ended. The first rank to find out writes it to the store, and all ranks throw it.
struct GroupFailure {
  enum class Kind { kLost, kTimeout, kDisagreement, kAborted };
  Kind kind = Kind::kLost;
  std::string happened;
  std::string fix;
  int blamed = -1;  ///< rank in the job that is lost, has left, is late, or ended the group; -1: none, or not known

  FailureCause cause() const;
  /// Throws TimeoutError or Error, with the cause; where is left to the caller's caller, which knows it.
  [[noreturn]] void raise() const;
  std::string encode() const;
  /// @param text  from another rank, so not trusted: whatever it is, it becomes some failure
  static GroupFailure decode(const std::string& text);
};

}  // namespace lockstep

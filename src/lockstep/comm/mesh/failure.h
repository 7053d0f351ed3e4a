#pragma once

#include <string>

#include "lockstep/base/failure_cause.h"

namespace lockstep {

/// Why a group ended. The first rank that finds out writes it to the store, and all ranks throw it.
struct GroupFailure {
  enum class Kind { Lost, Timeout, Disagreement, Aborted };
  Kind kind = Kind::Lost;
  std::string happened;
  std::string fix;
  int blamed = -1;  ///< rank in the job that is lost, has left, is late, or ended the group; -1: no rank, or not known

  FailureCause cause() const;
  /// Throws TimeoutError or Error, with the cause. A caller further up adds `where`.
  [[noreturn]] void raise() const;
  std::string encode() const;
  /// @param text  from another rank, so not trusted: any text becomes some failure
  static GroupFailure decode(const std::string& text);
};

}  // namespace lockstep

#pragma once

#include <sys/types.h>

#include <string>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// A process that removes network namespaces, with all that still runs in them, when this object or this program has
/// ended, however that was: a program that a signal ends calls no destructor.
class NamespaceGuard {
 public:
  /// @param prefix  of the names of the namespaces
  /// @throws Error  if it cannot be started
  explicit NamespaceGuard(const std::string& prefix);
  /// Returns when the namespaces are removed.
  ~NamespaceGuard();
  NamespaceGuard(const NamespaceGuard&) = delete;
  NamespaceGuard& operator=(const NamespaceGuard&) = delete;

  /// For a copy of the program, made by fork: the guard does not wait for its end.
  void forget() noexcept { alive_.reset(); }

 private:
  UniqueFd alive_;  // the guard reads from the other end, which nobody ever writes to
  pid_t guard_ = -1;
};

}  // namespace lockstep

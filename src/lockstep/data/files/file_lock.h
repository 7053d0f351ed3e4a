#pragma once

#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// A lock that one process, or one thread, of those that name the same file holds at a time; the system releases it
/// where its holder dies. Not held where the file system knows no locks: use it against double work, not for safety.
class FileLock {
 public:
  /// Makes the file `path` if it is not there; it is never removed.
  /// @throws Error  if it cannot be made
  /// @throws TimeoutError  if another one holds it until `deadline`
  FileLock(const std::string& path, const Deadline& deadline);

 private:
  UniqueFd fd_;
};

}  // namespace lockstep

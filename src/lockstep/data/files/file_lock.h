#pragma once

#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// A lock that only one of the processes or threads that name one file can hold; the system releases it if its holder
/// dies. Not held if the file system has no locks: use it to avoid double work, not for safety.
class FileLock {
 public:
  /// Creates the file `path` if it does not exist; the file is never removed.
  /// @throws Error  if it cannot be created
  /// @throws TimeoutError  if another one holds the lock until `deadline`
  FileLock(const std::string& path, const Deadline& deadline);

 private:
  UniqueFd fd_;
};

}  // namespace lockstep

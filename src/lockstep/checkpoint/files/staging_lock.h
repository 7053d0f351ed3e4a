#pragma once

#include <string>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// Marks a staging folder as being written while its writer lives: a lock (flock) on the file `PATH.lock` beside it,
/// which the system releases however the writer ends. Over NFS the server keeps the lock, for all hosts.
class StagingLock {
 public:
  static constexpr const char* kEnding = ".lock";

  StagingLock() = default;
  /// @param path  the staging folder, whose name nobody else uses; it need not exist yet
  /// @throws Error  if the file cannot be made
  explicit StagingLock(const std::string& path);
  StagingLock(StagingLock&& other) noexcept;
  StagingLock& operator=(StagingLock&& other) noexcept;
  /// Removes the lock file.
  ~StagingLock();

  /// Whether a living writer, in this process or another, has marked the folder `path`. On a file system without locks
  /// this cannot be known: a lock file made within the last day counts as held.
  static bool is_held(const std::string& path);

 private:
  std::string file_;  // empty: no folder is marked
  UniqueFd fd_;
};

}  // namespace lockstep

#pragma once

#include <string>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// Marks a staging folder as being written, for as long as its writer lives: a lock (flock) on the file `PATH.lock`
/// beside it, which the system releases however the writer ends. Over NFS the server keeps it, for all hosts.
class StagingLock {
 public:
  static constexpr const char* kEnding = ".lock";

  StagingLock() = default;
  /// @param path  of the staging folder, whose name nobody else uses; the folder need not be there yet
  /// @throws Error  if the file cannot be made
  explicit StagingLock(const std::string& path);
  StagingLock(StagingLock&& other) noexcept;
  StagingLock& operator=(StagingLock&& other) noexcept;
  /// Removes the file.
  ~StagingLock();

  /// Whether a writer that lives, in this process or another one, has marked the folder `path`. On a file system
  /// without locks nobody can tell: there a file that was made within the last day counts as held.
  static bool is_held(const std::string& path);

 private:
  std::string file_;  // empty: nothing is marked
  UniqueFd fd_;
};

}  // namespace lockstep

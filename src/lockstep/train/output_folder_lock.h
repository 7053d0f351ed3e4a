#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// The right to write a training's results into a folder, which one process at a time has. Two trainings in one folder
/// would remove each other's half-written checkpoints and mix their logs.
///
/// It is a lock (flock) on the file `.lockstep.lock` in the folder, which the system releases when its holder ends,
/// however it ends: a file that a dead process left blocks nobody. Over NFS the server keeps the lock, for all hosts.
/// On a file system without locks there is none, and a warning says so. One process may take a folder more than once.
class OutputFolderLock {
 public:
  static constexpr const char* kFile = ".lockstep.lock";

  /// Makes the folder where it is not there. A process of the same job (TORCHELASTIC_RUN_ID), or any where a launcher
  /// has started this rank again, is waited for, at most `patience`: it may just be ending.
  /// @throws Error  if another process holds the folder: who, on which host, since when. Or if nothing can be written
  static std::shared_ptr<const OutputFolderLock> take(const std::string& folder,
                                                      std::chrono::milliseconds patience = std::chrono::seconds(20));
  ~OutputFolderLock();
  OutputFolderLock(const OutputFolderLock&) = delete;
  OutputFolderLock& operator=(const OutputFolderLock&) = delete;

 private:
  OutputFolderLock(std::string path, UniqueFd fd, bool is_held);
  static std::shared_ptr<OutputFolderLock> lock(const std::string& folder, std::chrono::milliseconds patience);

  std::string path_;
  UniqueFd fd_;
  bool is_held_;
};

}  // namespace lockstep

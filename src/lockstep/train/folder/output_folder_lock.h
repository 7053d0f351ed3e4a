#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// The right to write a training's results into a folder, which only one process has at a time. Two trainings in one
/// folder would remove each other's half-written checkpoints and mix their logs.
///
/// It is a lock (flock) on the file `.lockstep.lock` in the folder. The system releases it when its holder ends, in
/// whatever way: a file left by a dead process blocks nobody. Over NFS the server keeps the lock, for all hosts. On a
/// file system without locks the folder is not locked, and a warning says so. One process may take a folder more than
/// once.
class OutputFolderLock {
 public:
  static constexpr const char* kFile = ".lockstep.lock";

  /// Which other process is awaited, because it may be about to end.
  enum class Awaited {
    SameJob,  ///< as FolderHolder::ends_soon
    Any,      ///< for a rank that writes in the place of a lost one, whose process may still be there
  };

  /// Makes the folder if it does not exist. Waits at most `patience` for a process that holds it; nothing: 20 s for one
  /// of this host, which the kernel releases with its process, and 2 minutes for one of another host. An NFS server
  /// keeps the locks of a host that is gone for 90 s by default.
  /// @throws Error  if another process holds the folder: which process, on which host, since when. Or if the folder
  /// cannot be written
  static std::shared_ptr<const OutputFolderLock> take(const std::string& folder, Awaited awaited = Awaited::SameJob,
                                                      std::optional<std::chrono::milliseconds> patience = {});
  /// Takes the folder unless another process holds it. Does not wait.
  /// @param holder  becomes "process 12 on host a, since ...", if the process is known
  /// @return  null if another process holds it
  /// @throws Error  if the folder cannot be written
  static std::shared_ptr<const OutputFolderLock> try_take(const std::string& folder, std::string& holder);
  ~OutputFolderLock();
  /// False on a file system without locks.
  bool is_held() const { return is_held_; }
  /// False if somebody has removed the file: then the folder can be taken again, by anybody.
  bool is_in_place() const;
  OutputFolderLock(const OutputFolderLock&) = delete;
  OutputFolderLock& operator=(const OutputFolderLock&) = delete;

 private:
  struct Try;

  OutputFolderLock(std::string path, UniqueFd fd, bool is_held);
  static Try try_lock(const std::string& folder);
  static Try try_new_lock(const std::string& folder);

  std::string path_;
  UniqueFd fd_;
  bool is_held_;
};

}  // namespace lockstep

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// A file that is written piece by piece and appears under its name only when it is complete: a reader, or a crash at
/// any moment, sees the old file or the new one and never a part. Destroyed without `commit`, it leaves nothing behind.
/// Not thread-safe. All calls throw Error with path and cause (no space, no permission); the old file then remains.
class AtomicFile {
 public:
  /// Opens a temporary file beside `path`, or beside the target if `path` is a symbolic link. Devices and pipes are
  /// refused.
  /// @param mode  permission bits of the new file
  explicit AtomicFile(std::string path, unsigned mode = 0644);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Reserves `size_bytes` on the disk, so that a lack of space shows before anything is written. Does nothing if the
  /// file system does not support it.
  void reserve(std::uint64_t size_bytes);
  /// Appends `content`.
  void write(std::string_view content);
  /// Syncs the file to disk, renames it to its path and syncs the folder.
  void commit();

 private:
  std::string path_;
  std::string temporary_;
  UniqueFd fd_;
  unsigned mode_;
};

/// Replaces the file `path` by `content`, as AtomicFile does. A device or a pipe is written to directly.
/// @throws Error  with path and cause (no space, no permission); the old file then remains unchanged
void write_file_atomically(const std::string& path, std::string_view content, unsigned mode = 0644);

/// The whole content of `path`.
/// @throws Error  with path and cause
std::string read_file(const std::string& path);

}  // namespace lockstep

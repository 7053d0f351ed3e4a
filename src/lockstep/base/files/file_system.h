#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// The calls to the operating system that a careful writer of files needs, with the meaning and results of POSIX: -1
/// (or false) and `errno` for a failure. Derive from it to inject faults: a full disk, a process that dies at a certain
/// byte. Thread-safe.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual int create(const std::string& path, mode_t mode);  ///< creates a file for writing; its descriptor
  virtual ssize_t write(int fd, const void* data, std::size_t size_bytes);
  /// Reserves disk blocks. If the file system does not support it, does nothing and returns 0.
  virtual int reserve(int fd, std::uint64_t size_bytes);
  virtual int sync(int fd);
  virtual int make_folder(const std::string& path, mode_t mode);
  virtual int sync_folder(const std::string& path);
  virtual int rename(const std::string& from, const std::string& to);
  /// Swaps two names in one step. EINVAL or ENOSYS if the file system does not support it.
  virtual int exchange(const std::string& a, const std::string& b);
  virtual int remove_file(const std::string& path);
  virtual int remove_folder(const std::string& path);  ///< removes an empty folder
  /// Space left for this user; -1 if it is not known.
  virtual std::int64_t free_bytes(const std::string& folder);
  /// Names in `folder`, sorted, without "." and ".."; empty if it cannot be read.
  virtual std::vector<std::string> names_in(const std::string& folder);

  /// Removes a folder and its content with the calls above; links are removed, not followed. True if it is gone.
  /// Several processes may remove the same one.
  bool remove_tree(const std::string& path);
};

/// The operating system.
FileSystem& real_file_system();

}  // namespace lockstep

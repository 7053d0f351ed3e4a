#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// What a careful writer of files asks of the operating system, with the meaning and the results of POSIX: -1 (or
/// false) and `errno` for a failure. Derive from it to put faults in between: a full disk, a process that dies at a
/// certain byte. Thread-safe.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual int create(const std::string& path, mode_t mode);  ///< a new empty file, open for writing; a descriptor
  virtual ssize_t write(int fd, const void* data, std::size_t size_bytes);
  /// Claims blocks. Where the file system cannot, it does nothing and says 0.
  virtual int reserve(int fd, std::uint64_t size_bytes);
  virtual int sync(int fd);
  virtual int make_folder(const std::string& path, mode_t mode);
  virtual int sync_folder(const std::string& path);
  virtual int rename(const std::string& from, const std::string& to);
  /// Swaps two names in one step. EINVAL or ENOSYS where the file system cannot.
  virtual int exchange(const std::string& a, const std::string& b);
  virtual int remove_file(const std::string& path);
  virtual int remove_folder(const std::string& path);  ///< an empty one
  /// Space left for this user; -1 where it is not known.
  virtual std::int64_t free_bytes(const std::string& folder);
  /// Names in `folder`, sorted, without "." and ".."; none where it cannot be read.
  virtual std::vector<std::string> names_in(const std::string& folder);

  /// Removes a folder and what is in it, by the calls above; links are removed, not followed. True if it is gone.
  bool remove_tree(const std::string& path);
};

/// The operating system itself.
FileSystem& real_file_system();

}  // namespace lockstep

#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// The content of a file as memory that the system reads on first access.
///
/// If the file is cut while it is mapped, or its disk fails, the system sends SIGBUS to a thread that reads a part that
/// is missing. Without a handler that ends the process. Here the thread reads zeros instead, the process prints one
/// line that names the file, and `require_whole` throws from then on. So a reader calls `require_whole` when it has
/// read, before it hands on what it found. Bus errors of other memory reach the handler that was set before.
class MappedFile {
 public:
  enum class Access {
    ReadOnly,
    CopyOnWrite  ///< a write changes a private copy of its page, and never the file
  };
  /// @param fd     of a file that has at least `bytes`, which is more than 0
  /// @throws Error  if the system cannot map it
  MappedFile(UniqueFd fd, std::size_t bytes, Access access, const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  char* data() const { return data_; }
  std::size_t size() const { return size_; }
  /// Tells the system that reads are in sequence, or at random places (the default).
  void expect_sequence(bool in_sequence) const;
  /// @throws Error  if the file is shorter now than it was, or a part of it could not be read
  void require_whole() const;
  /// Like `require_whole`, for all files that are mapped now: call it after a read of memory that may belong to one.
  static void require_all_whole();

  struct Guard;  ///< what the handler of SIGBUS knows of this memory

 private:
  UniqueFd fd_;
  std::string path_;
  char* data_ = nullptr;
  std::size_t size_ = 0;
  Guard* guard_ = nullptr;  // never freed, because a handler may look at it; used again
};

}  // namespace lockstep

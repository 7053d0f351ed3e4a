#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// The content of a file as one piece of read-only memory. A small plain file is read. A larger one is mapped, so only
/// the accessed parts are read, and ranks of one host share them. A gzip file, recognised by its content, is inflated.
/// Views of it live as long as the object, and stay valid after a move.
///
/// A mapped file must not be shortened: a read of a missing part makes the system end the process (SIGBUS). `view`
/// checks, so that a file that was shortened before is an Error; nothing protects a view while it is read. To change a
/// file in use, write a new one and rename it over the old one.
class FileBytes {
 public:
  /// Plain files from this size on are mapped.
  static constexpr std::size_t kMappedFromBytes = std::size_t{16} << 20;

  /// @throws Error  with path and cause: missing, a folder, no permission, damaged gzip content
  static FileBytes open(const std::string& path);
  /// Like `open`, for a text file. @throws Error  as `open`; for UTF-16 and UTF-32, with the command that converts them
  static FileBytes open_text(const std::string& path);
  /// The bytes as they are on disk, gzip or not. @throws Error  as `open`
  static FileBytes open_raw(const std::string& path);

  FileBytes(FileBytes&& other) noexcept;
  FileBytes& operator=(FileBytes&& other) noexcept;
  ~FileBytes();

  /// Tells the system that the next reads are at random places, not in sequence.
  void expect_random_access();

  /// @throws Error  if the file is mapped and was shortened
  std::string_view view() const {
    if (map_ != nullptr) require_whole();
    return view_;
  }
  const std::string& path() const { return path_; }

 private:
  FileBytes() = default;
  void require_whole() const;

  std::string path_;
  std::string_view view_;
  UniqueFd fd_;          // for a mapped file
  void* map_ = nullptr;  // null if content_ holds the content
  std::size_t map_bytes_ = 0;
  std::string content_;
};

}  // namespace lockstep

#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "lockstep/base/files/mapped_file.h"

namespace lockstep {

/// The content of a file as one piece of read-only memory. A small plain file is read. A larger one is mapped, so only
/// the accessed parts are read, and ranks of one host share them. A gzip or zstd file, recognised by its content, is
/// inflated. Views of it live as long as the object, and stay valid after a move.
///
/// If a mapped file is shortened, its missing part reads as zeros, and `require_whole` throws: a reader calls it before
/// it uses what it has read. To change a file in use, write a new one and rename it over the old one.
class FileBytes {
 public:
  /// Plain files from this size on are mapped.
  static constexpr std::size_t kMappedFromBytes = std::size_t{16} << 20;

  /// @throws Error  with path and cause: missing, a folder, no permission, damaged gzip or zstd content
  static FileBytes open(const std::string& path);
  /// Like `open`, for a text file. @throws Error  as `open`; for UTF-16 and UTF-32, with the command that converts them
  static FileBytes open_text(const std::string& path);
  /// The bytes as they are on disk, compressed or not. @throws Error  as `open`
  static FileBytes open_raw(const std::string& path);

  FileBytes(FileBytes&& other) noexcept;
  FileBytes& operator=(FileBytes&& other) noexcept;

  /// Tells the system that the next reads are at random places, not in sequence.
  void expect_random_access();

  /// @throws Error  if the file is mapped and was shortened
  std::string_view view() const {
    require_whole();
    return view_;
  }
  /// @throws Error  if the file is mapped and was shortened, or could not be read everywhere
  void require_whole() const {
    if (map_) map_->require_whole();
  }
  const std::string& path() const { return path_; }

 private:
  FileBytes() = default;

  std::string path_;
  std::string_view view_;
  std::unique_ptr<MappedFile> map_;  // null if content_ holds the content
  std::string content_;
};

}  // namespace lockstep

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// The content of a file as one piece of memory, read-only: a small plain file is read, a larger one is mapped, so only
/// what is looked at is read, and ranks of one host share it; a gzip file, recognised by its content, is inflated.
/// Views into it live as long as the object, and a move keeps them.
///
/// A mapped file must not be cut short: what is no more there cannot be read, and the system ends the process (SIGBUS).
/// `view` looks, so that a file which was cut since is an Error; one that is cut while a view is read cannot be helped.
/// To change a file in use, write a new one and rename it over the old one.
class FileBytes {
 public:
  /// Plain files from this size on are mapped.
  static constexpr std::size_t kMappedFromBytes = std::size_t{16} << 20;

  /// @throws Error  with path and cause: not there, a folder, no permission, damaged gzip content
  static FileBytes open(const std::string& path);
  /// The same for a file of text. @throws Error  as `open`; for UTF-16 and UTF-32, with what converts them
  static FileBytes open_text(const std::string& path);
  /// The bytes as they are on disk, gzip or not. @throws Error  as `open`
  static FileBytes open_raw(const std::string& path);

  FileBytes(FileBytes&& other) noexcept;
  FileBytes& operator=(FileBytes&& other) noexcept;
  ~FileBytes();

  /// Tells the system that what is read next lies anywhere, not behind what was read last.
  void expect_random_access();

  /// @throws Error  if the file is mapped and was cut short
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
  UniqueFd fd_;          // of a mapped file
  void* map_ = nullptr;  // null where the content is in content_
  std::size_t map_bytes_ = 0;
  std::string content_;
};

}  // namespace lockstep

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

/// The content of a file as one piece of memory, read-only: a plain file is mapped, so only what is looked at is read,
/// and ranks of one host share it; a gzip file, recognised by its content, is inflated. Views into it live as long as
/// the object, and a move keeps them. Do not shorten a file that is mapped.
class FileBytes {
 public:
  /// Most bytes that a gzip file may inflate to.
  static constexpr std::size_t kMostInflatedBytes = std::size_t{4} << 30;

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

  std::string_view view() const { return view_; }
  const std::string& path() const { return path_; }

 private:
  FileBytes() = default;

  std::string path_;
  std::string_view view_;
  void* map_ = nullptr;  // null where the content is in inflated_, or empty
  std::size_t map_bytes_ = 0;
  std::string inflated_;
};

}  // namespace lockstep

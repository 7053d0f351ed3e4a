#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace lockstep {

/// Whether `bytes` begin as a gzip file does. File names do not matter.
bool is_gzip(std::string_view bytes);

/// A gzip file of n bytes holds at most this times n: deflate's bound.
constexpr std::size_t kGzipMostExpansion = 1032;

/// Inflates a gzip file in memory, piece by piece. Several members in a row are one content (RFC 1952). Checksums are
/// verified when the end is reached.
class GzipReader {
 public:
  /// @param compressed  must outlive the reader
  /// @param path  named in errors
  GzipReader(std::string_view compressed, std::string path);
  ~GzipReader();
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  /// Writes the next bytes of the content and returns their number: fewer than `capacity` only at the end of the
  /// content.
  /// @throws Error  if the file is truncated or damaged, or something else follows the content
  std::size_t read(char* out, std::size_t capacity);

 private:
  struct Stream;
  bool next_member();

  std::unique_ptr<Stream> stream_;
  std::string path_;
  bool ended_ = false;
};

/// The whole content of a gzip file. @throws Error  as `read` does, and if the content is larger than `most_bytes`
std::string gunzip(std::string_view compressed, const std::string& path, std::size_t most_bytes);

}  // namespace lockstep

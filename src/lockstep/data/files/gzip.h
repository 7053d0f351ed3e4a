#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace lockstep {

/// Whether `bytes` begin as a gzip file does. Names of files do not matter.
bool is_gzip(std::string_view bytes);

/// No gzip file of n bytes holds more than this times n: deflate's bound.
constexpr std::size_t kGzipMostExpansion = 1032;

/// What a gzip file of so many bytes may inflate to in memory, unless LOCKSTEP_INFLATE_LIMIT_MB says otherwise: 64 MiB,
/// or 100 times its size where that is more, and at most 4 GiB. Texts and images shrink 3 to 20 times; a file that
/// holds more is hardly one, and could fill the memory. @throws Error  if the variable is no number
std::size_t most_inflated_bytes(std::size_t compressed_bytes);

/// Inflates a gzip file that stands in memory, piece by piece. Several members after each other are one content
/// (RFC 1952). Check sums are verified when the end is reached.
class GzipReader {
 public:
  /// @param compressed  must outlive the reader
  /// @param path  for errors
  GzipReader(std::string_view compressed, std::string path);
  ~GzipReader();
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  /// Writes the next bytes of the content and returns how many: fewer than `capacity` at the end of the content only.
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

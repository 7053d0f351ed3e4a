#include "lockstep/data/files/gzip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>

#include "lockstep/base/error.h"
#include "lockstep/data/files/inflate_limit.h"

namespace lockstep {

bool is_gzip(std::string_view bytes) { return bytes.substr(0, 2) == "\x1f\x8b"; }

struct GzipReader::Stream {
  explicit Stream(std::string_view bytes) : left(bytes) {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (inflateInit2(&z, kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~Stream() { inflateEnd(&z); }

  // zlib counts in unsigned int; files may be larger.
  static uInt at_most_uint(std::size_t bytes) {
    return static_cast<uInt>(std::min<std::size_t>(bytes, std::numeric_limits<uInt>::max()));
  }

  // One call of inflate: input from `left`, output to [out, out + capacity). Returns zlib's code and the number of
  // bytes written.
  std::pair<int, std::size_t> inflate_some(char* out, std::size_t capacity) {
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(left.data()));
    const uInt in = z.avail_in = at_most_uint(left.size());
    z.next_out = reinterpret_cast<Bytef*>(out);
    const uInt room = z.avail_out = at_most_uint(capacity);
    const int code = ::inflate(&z, Z_NO_FLUSH);
    left.remove_prefix(in - z.avail_in);
    return {code, room - z.avail_out};
  }

  z_stream z{};
  std::string_view left;  // input not yet read
};

GzipReader::GzipReader(std::string_view compressed, std::string path)
    : stream_(std::make_unique<Stream>(compressed)), path_(std::move(path)) {}

GzipReader::~GzipReader() = default;

std::size_t GzipReader::read(char* out, std::size_t capacity) {
  std::size_t written = 0;
  while (written < capacity && !ended_) {
    const auto [code, bytes] = stream_->inflate_some(out + written, capacity - written);
    written += bytes;
    if (code == Z_STREAM_END) {
      ended_ = !next_member();
    } else if (code == Z_BUF_ERROR || (code == Z_OK && bytes == 0 && stream_->left.empty())) {
      throw Error("the gzip file ends in the middle of its content", path_, "the file is truncated: fetch it again");
    } else if (code != Z_OK) {
      throw Error(
          fmt::format("the gzip file is damaged: {}", stream_->z.msg != nullptr ? stream_->z.msg : zError(code)), path_,
          "fetch the file again");
    }
  }
  return written;
}

bool GzipReader::next_member() {
  if (stream_->left.empty()) return false;
  if (!is_gzip(stream_->left)) {
    throw Error(fmt::format("{} bytes that are not gzip follow the gzip content", stream_->left.size()), path_,
                "fetch the file again, or remove what was appended to it");
  }
  inflateReset(&stream_->z);
  return true;
}

std::string gunzip(std::string_view compressed, const std::string& path, std::size_t most_bytes) {
  GzipReader reader(compressed, path);
  std::string content;
  std::size_t size = 0;
  for (;;) {
    content.resize(std::min(std::max<std::size_t>(1 << 16, size * 2), most_bytes + 1));
    size += reader.read(content.data() + size, content.size() - size);
    if (size > most_bytes) {
      throw Error(fmt::format("the gzip file of {} bytes contains more than {} bytes", compressed.size(), most_bytes),
                  path,
                  fmt::format("decompress it first: plain files are read without loading all of them; or raise {}, if "
                              "the file is meant to be that large",
                              kInflateLimitVariable));
    }
    if (size < content.size()) break;
  }
  content.resize(size);
  return content;
}

}  // namespace lockstep

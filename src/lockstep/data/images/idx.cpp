#include "lockstep/data/idx.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/data/files/file_bytes.h"
#include "lockstep/data/files/gzip.h"

namespace lockstep {
namespace {

struct IdxType {
  unsigned char code;
  at::ScalarType dtype;
};
constexpr std::array<IdxType, 6> kTypes{{{0x08, at::kByte},
                                         {0x09, at::kChar},
                                         {0x0B, at::kShort},
                                         {0x0C, at::kInt},
                                         {0x0D, at::kFloat},
                                         {0x0E, at::kDouble}}};

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw Error(what, path, "give an IDX file as MNIST's are, plain or gzip; if it was downloaded, fetch it again");
}

// The bytes of an IDX file in order, plain or inflated.
class Source {
 public:
  explicit Source(const std::string& path) : file_(FileBytes::open_raw(path)), left_(file_.view()) {
    if (is_gzip(left_)) gzip_ = std::make_unique<GzipReader>(left_, path);
  }
  /// Returns fewer than `size` only at the end.
  std::size_t read(char* out, std::size_t size) {
    if (gzip_) return gzip_->read(out, size);
    size = std::min(size, left_.size());
    std::copy_n(left_.data(), size, out);
    left_.remove_prefix(size);
    return size;
  }
  /// An upper bound of the bytes in the file, whatever its header promises.
  std::size_t most_held_bytes() const { return file_.view().size() * (gzip_ ? kGzipMostExpansion : 1); }
  /// An upper bound of those that are taken into memory.
  std::size_t most_taken_bytes() const { return gzip_ ? most_inflated_bytes(file_.view().size()) : most_held_bytes(); }

 private:
  FileBytes file_;
  std::string_view left_;
  std::unique_ptr<GzipReader> gzip_;
};

struct Header {
  at::ScalarType dtype = at::kByte;
  std::vector<std::int64_t> sizes;
  std::size_t payload_bytes = 0;
};

void swap_bytes(char* bytes, std::size_t size, std::size_t element_bytes) {
  if (element_bytes == 1) return;
  for (char* end = bytes + size; bytes != end; bytes += element_bytes) std::reverse(bytes, bytes + element_bytes);
}

std::vector<std::int64_t> read_sizes(Source& source, std::size_t dims, const std::string& path) {
  std::vector<unsigned char> bytes(4 * dims);
  const std::size_t got = source.read(reinterpret_cast<char*>(bytes.data()), bytes.size());
  if (got != bytes.size()) {
    fail(path, fmt::format("the IDX file ends in its header: {} bytes of sizes for {} dimensions expected, {} found",
                           bytes.size(), dims, got));
  }
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < bytes.size(); i += 4) {
    sizes.push_back(std::int64_t{bytes[i]} << 24 | bytes[i + 1] << 16 | bytes[i + 2] << 8 | bytes[i + 3]);
  }
  return sizes;
}

// What the header promises, in bytes; refused before memory is asked for it.
std::size_t promised_bytes(const Header& header, const Source& source, const std::string& path) {
  const bool is_empty = std::find(header.sizes.begin(), header.sizes.end(), 0) != header.sizes.end();
  std::uint64_t bytes = c10::elementSize(header.dtype);
  bool overflows = false;
  for (const std::int64_t size : header.sizes) {
    overflows |= __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1)), &bytes);
  }
  if (is_empty && overflows) {  // LibTorch multiplies the other dimensions of an empty tensor too
    fail(path, fmt::format("the IDX header promises no elements, in {} dimensions whose product overflows",
                           header.sizes.size()));
  }
  if (is_empty) return 0;
  const std::string promise = fmt::format("the IDX header promises [{}] elements of {} bytes",
                                          fmt::join(header.sizes, ", "), c10::elementSize(header.dtype));
  if (overflows || bytes > source.most_held_bytes()) {
    fail(path, fmt::format("{}, more than the file can hold ({} bytes)", promise, source.most_held_bytes()));
  }
  if (bytes > source.most_taken_bytes()) {
    throw Error(
        fmt::format("{}, more than a gzip file of this size may inflate to ({} bytes)", promise,
                    source.most_taken_bytes()),
        path,
        fmt::format("decompress it to a file first, or raise {}, if it is to be that large", kInflateLimitVariable));
  }
  return bytes;
}

Header read_header(Source& source, const std::string& path) {
  std::array<unsigned char, 4> magic{};
  const std::size_t got = source.read(reinterpret_cast<char*>(magic.data()), magic.size());
  const auto* type = std::find_if(kTypes.begin(), kTypes.end(), [&](const IdxType& t) { return t.code == magic[2]; });
  if (got < magic.size() || magic[0] != 0 || magic[1] != 0 || type == kTypes.end() || magic[3] == 0) {
    fail(path, fmt::format("no IDX file: a magic number like 00 00 08 03 expected, {} bytes{} found", got,
                           got == 0 ? "" : fmt::format(" {:02x}", fmt::join(magic.begin(), magic.begin() + got, " "))));
  }
  Header header{type->dtype, read_sizes(source, magic[3], path)};
  header.payload_bytes = promised_bytes(header, source, path);
  return header;
}

}  // namespace

at::Tensor read_idx(const std::string& path) {
  Source source(path);
  const Header header = read_header(source, path);
  at::Tensor tensor = at::empty(header.sizes, at::TensorOptions(header.dtype));
  auto* bytes = static_cast<char*>(tensor.data_ptr());
  const std::size_t got = source.read(bytes, header.payload_bytes);
  if (got != header.payload_bytes) {
    fail(path, fmt::format("the IDX file is truncated: {} bytes for [{}] expected after the header, {} found",
                           header.payload_bytes, fmt::join(header.sizes, ", "), got));
  }
  char more = 0;
  if (source.read(&more, 1) != 0) {
    fail(path, fmt::format("the IDX file goes on after its last element: {} bytes for [{}] expected, more found",
                           header.payload_bytes, fmt::join(header.sizes, ", ")));
  }
  swap_bytes(bytes, header.payload_bytes, c10::elementSize(header.dtype));
  return tensor;
}

void write_idx(const std::string& path, const at::Tensor& tensor) {
  const auto* type =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const IdxType& t) { return t.dtype == tensor.scalar_type(); });
  const bool fits = std::all_of(tensor.sizes().begin(), tensor.sizes().end(),
                                [](std::int64_t size) { return size <= std::numeric_limits<std::uint32_t>::max(); });
  if (type == kTypes.end() || tensor.dim() < 1 || tensor.dim() > 255 || !fits) {
    throw Error(fmt::format("IDX cannot hold a tensor {} [{}]", c10::toString(tensor.scalar_type()),
                            fmt::join(tensor.sizes(), ", ")),
                path, "give 1 to 255 dimensions of uint8, int8, int16, int32, float32 or float64");
  }
  const at::Tensor rows = tensor.contiguous().cpu();
  std::string content{0, 0, static_cast<char>(type->code), static_cast<char>(tensor.dim())};
  for (const std::int64_t size : tensor.sizes()) {
    for (int shift = 24; shift >= 0; shift -= 8) content += static_cast<char>(size >> shift & 0xff);
  }
  const std::size_t header_bytes = content.size();
  content.append(static_cast<const char*>(rows.data_ptr()), rows.nbytes());
  swap_bytes(content.data() + header_bytes, rows.nbytes(), rows.element_size());
  write_file_atomically(path, content);
}

}  // namespace lockstep

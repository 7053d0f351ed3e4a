#include "lockstep/data/images/idx_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "lockstep/base/error.h"
#include "lockstep/data/files/inflate_limit.h"

namespace lockstep {

std::size_t idx_element_bytes(IdxType type) {
  switch (type) {
    case IdxType::UInt8:
    case IdxType::Int8:
      return 1;
    case IdxType::Int16:
      return 2;
    case IdxType::Int32:
    case IdxType::Float32:
      return 4;
    case IdxType::Float64:
      return 8;
  }
  return 0;
}

IdxReader::IdxReader(const std::string& path) : path_(path), file_(FileBytes::open_raw(path)), left_(file_.view()) {
  if (is_gzip(left_)) gzip_ = std::make_unique<GzipReader>(left_, path);
  std::array<unsigned char, 4> magic{};
  const std::size_t got = read(reinterpret_cast<char*>(magic.data()), magic.size());
  type_ = static_cast<IdxType>(magic[2]);
  if (got < magic.size() || magic[0] != 0 || magic[1] != 0 || idx_element_bytes(type_) == 0 || magic[3] == 0) {
    fail(fmt::format("this is not an IDX file: a magic number like 00 00 08 03 was expected, but {} bytes{} were found",
                     got, got == 0 ? "" : fmt::format(" {:02x}", fmt::join(magic.begin(), magic.begin() + got, " "))));
  }
  read_sizes(magic[3]);
  payload_bytes_ = promised_bytes();
}

void IdxReader::fail(const std::string& what) const {
  throw Error(what, path_, "give an IDX file as MNIST's are, plain or gzip; if it was downloaded, fetch it again");
}

// Returns fewer than `size` only at the end.
std::size_t IdxReader::read(char* out, std::size_t size) {
  if (gzip_) return gzip_->read(out, size);
  size = std::min(size, left_.size());
  std::copy_n(left_.data(), size, out);
  left_.remove_prefix(size);
  return size;
}

// An upper bound of the bytes in the file, whatever its header promises.
std::size_t IdxReader::most_held_bytes() const { return file_.view().size() * (gzip_ ? kGzipMostExpansion : 1); }

// An upper bound of those that are taken into memory.
std::size_t IdxReader::most_taken_bytes() const {
  return gzip_ ? most_inflated_bytes(file_.view().size()) : most_held_bytes();
}

void IdxReader::read_sizes(std::size_t dims) {
  std::vector<unsigned char> bytes(4 * dims);
  const std::size_t got = read(reinterpret_cast<char*>(bytes.data()), bytes.size());
  if (got != bytes.size()) {
    fail(fmt::format(
        "the IDX file ends in its header: {} bytes of sizes for {} dimensions were expected, but {} were found",
        bytes.size(), dims, got));
  }
  for (std::size_t i = 0; i < bytes.size(); i += 4) {
    sizes_.push_back(std::int64_t{bytes[i]} << 24 | bytes[i + 1] << 16 | bytes[i + 2] << 8 | bytes[i + 3]);
  }
}

std::size_t IdxReader::promised_bytes() const {
  const bool is_empty = std::find(sizes_.begin(), sizes_.end(), 0) != sizes_.end();
  std::uint64_t bytes = idx_element_bytes(type_);
  bool overflows = false;
  for (const std::int64_t size : sizes_) {
    overflows |= __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1)), &bytes);
  }
  if (is_empty && overflows) {  // LibTorch multiplies the other dimensions of an empty tensor too
    fail(fmt::format("the IDX header promises no elements, in {} dimensions whose product overflows", sizes_.size()));
  }
  if (is_empty) return 0;
  const std::string promise = fmt::format("the IDX header promises [{}] elements of {} bytes", fmt::join(sizes_, ", "),
                                          idx_element_bytes(type_));
  if (overflows || bytes > most_held_bytes()) {
    fail(fmt::format("{}, more than the file can hold ({} bytes)", promise, most_held_bytes()));
  }
  if (bytes > most_taken_bytes()) {
    throw Error(
        fmt::format("{}, more than a gzip file of this size can decompress to ({} bytes)", promise, most_taken_bytes()),
        path_,
        fmt::format("decompress it first, or raise {}, if the file is meant to be that large", kInflateLimitVariable));
  }
  return bytes;
}

void IdxReader::read_payload(char* out) {
  const std::size_t got = read(out, payload_bytes_);
  if (got != payload_bytes_) {
    fail(fmt::format("the IDX file is truncated: {} bytes for [{}] were expected after the header, but {} were found",
                     payload_bytes_, fmt::join(sizes_, ", "), got));
  }
  file_.require_whole();
  char more = 0;
  if (read(&more, 1) != 0) {
    fail(fmt::format("the IDX file continues after its last element: {} bytes for [{}] were expected", payload_bytes_,
                     fmt::join(sizes_, ", ")));
  }
  swap_idx_bytes(out, payload_bytes_, idx_element_bytes(type_));
}

void swap_idx_bytes(char* bytes, std::size_t size, std::size_t element_bytes) {
  if (element_bytes == 1) return;
  for (char* end = bytes + size; bytes != end; bytes += element_bytes) std::reverse(bytes, bytes + element_bytes);
}

}  // namespace lockstep

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/files/file_bytes.h"
#include "lockstep/data/files/gzip.h"

namespace lockstep {

/// How IDX files name the types of elements: the third byte of a file.
enum class IdxType : unsigned char {
  UInt8 = 0x08,
  Int8 = 0x09,
  Int16 = 0x0B,
  Int32 = 0x0C,
  Float32 = 0x0D,
  Float64 = 0x0E
};
std::size_t idx_element_bytes(IdxType type);

/// An IDX file, plain or gzip. What its header promises is checked against what the file can hold before memory is
/// asked for.
class IdxReader {
 public:
  /// Reads the header. @throws Error  with the path, if it is not an IDX header or promises too much
  explicit IdxReader(const std::string& path);

  IdxType type() const { return type_; }
  const std::vector<std::int64_t>& sizes() const { return sizes_; }
  std::size_t payload_bytes() const { return payload_bytes_; }
  /// Reads all elements, in this machine's byte order, to `out`, which has `payload_bytes()`.
  /// @throws Error  if the file is shorter or longer than its header says
  void read_payload(char* out);

 private:
  std::size_t read(char* out, std::size_t size);
  void read_sizes(std::size_t dims);
  std::size_t promised_bytes() const;
  std::size_t most_held_bytes() const;
  std::size_t most_taken_bytes() const;
  [[noreturn]] void fail(const std::string& what) const;

  const std::string path_;
  FileBytes file_;
  std::string_view left_;
  std::unique_ptr<GzipReader> gzip_;  // null: plain
  IdxType type_ = IdxType::UInt8;
  std::vector<std::int64_t> sizes_;
  std::size_t payload_bytes_ = 0;
};

/// Turns the bytes of each element around: IDX files are big-endian.
void swap_idx_bytes(char* bytes, std::size_t size, std::size_t element_bytes);

}  // namespace lockstep

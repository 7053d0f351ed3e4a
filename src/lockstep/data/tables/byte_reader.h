#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep {

/// Reads numbers and pieces from bytes that somebody else wrote, from the front. Fixed numbers are little-endian.
/// Every call throws TableFault if the bytes end before.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes), left_(bytes) {}

  std::string_view take(std::size_t count);
  std::uint8_t byte() { return static_cast<std::uint8_t>(take(1).front()); }
  std::uint32_t fixed32() { return static_cast<std::uint32_t>(fixed(4)); }
  std::uint64_t fixed64() { return fixed(8); }
  /// Seven bits a byte, the lowest first; the last byte has no highest bit.
  std::uint64_t varint();
  /// A varint that holds 0, -1, 1, -2, … as 0, 1, 2, 3, …
  std::int64_t zigzag();

  std::string_view left() const { return left_; }
  std::size_t position() const { return bytes_.size() - left_.size(); }

  /// The little-endian number of `bytes` of at most 8.
  static std::uint64_t number_of(std::string_view bytes);

 private:
  std::uint64_t fixed(std::size_t bytes) { return number_of(take(bytes)); }

  std::string_view bytes_;
  std::string_view left_;
};

}  // namespace lockstep

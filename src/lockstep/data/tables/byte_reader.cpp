#include "lockstep/data/tables/byte_reader.h"

#include <fmt/format.h>

#include <cstring>

#include "lockstep/data/tables/table_fault.h"

namespace lockstep {

std::string_view ByteReader::take(std::size_t count) {
  if (count > left_.size()) {
    throw TableFault(fmt::format("{} bytes are announced, and {} are there", count, left_.size()));
  }
  const std::string_view piece = left_.substr(0, count);
  left_.remove_prefix(count);
  return piece;
}

std::uint64_t ByteReader::varint() {
  std::uint64_t number = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const std::uint8_t next = byte();
    number |= std::uint64_t{next & 0x7FU} << shift;
    if (next < 0x80) return number;
  }
  throw TableFault("a number has more than 64 bits");
}

std::int64_t ByteReader::zigzag() {
  const std::uint64_t number = varint();
  return static_cast<std::int64_t>((number >> 1) ^ (~(number & 1) + 1));
}

std::uint64_t ByteReader::number_of(std::string_view bytes) {
  std::uint64_t number = 0;
  std::memcpy(&number, bytes.data(), bytes.size());  // hosts are little-endian, as LibTorch's are
  return number;
}

}  // namespace lockstep

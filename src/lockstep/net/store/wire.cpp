#include "lockstep/net/store/wire.h"

#include <fmt/format.h>

namespace lockstep {

void WireWriter::number(std::uint64_t value, int size_bytes) {
  for (int i = 0; i < size_bytes; ++i) u8(static_cast<std::uint8_t>(value >> (8 * i)));
}

void WireWriter::text(std::string_view value) {
  u32(static_cast<std::uint32_t>(value.size()));
  raw(value);
}

std::string_view WireReader::raw(std::size_t count) {
  if (count > rest_.size()) {
    throw WireError(fmt::format("message too short: {} bytes are left where {} were announced", rest_.size(), count));
  }
  const std::string_view taken = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return taken;
}

std::uint64_t WireReader::number(int size_bytes) {
  const std::string_view bytes = raw(static_cast<std::size_t>(size_bytes));
  std::uint64_t value = 0;
  for (int i = size_bytes - 1; i >= 0; --i) {
    value = value << 8 | static_cast<std::uint8_t>(bytes[static_cast<std::size_t>(i)]);
  }
  return value;
}

std::string WireReader::text(std::size_t max_bytes) {
  const std::size_t size = u32();
  if (size > max_bytes)
    throw WireError(fmt::format("a text has {} bytes, but at most {} are allowed", size, max_bytes));
  return std::string(raw(size));
}

void WireReader::end() const {
  if (!rest_.empty()) throw WireError(fmt::format("{} bytes follow the end of a message", rest_.size()));
}

}  // namespace lockstep

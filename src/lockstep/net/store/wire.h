#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/base/error.h"

namespace lockstep {

/// A connection of a store broke, or the other side sent bytes that the protocol does not allow; the connection ends.
class WireError : public Error {
 public:
  explicit WireError(const std::string& what)
      : Error(what, "connection of a store", "check that both sides run the same version of Lockstep") {}
};

/// Appends fields to a message. Numbers are little-endian; a text is its length in 32 bits, then its bytes.
class WireWriter {
 public:
  void u8(std::uint8_t value) { bytes_ += static_cast<char>(value); }
  void u32(std::uint32_t value) { number(value, 4); }
  void u64(std::uint64_t value) { number(value, 8); }
  void i64(std::int64_t value) { number(static_cast<std::uint64_t>(value), 8); }
  void text(std::string_view value);
  void raw(std::string_view value) { bytes_ += value; }

  const std::string& bytes() const { return bytes_; }

 private:
  void number(std::uint64_t value, int size_bytes);
  std::string bytes_;
};

/// Reads the fields of a message in order. Every length is checked against the remaining bytes before anything is
/// copied. All members throw WireError at the end of the message, or if a limit is exceeded.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  std::uint8_t u8() { return static_cast<std::uint8_t>(number(1)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  std::uint64_t u64() { return number(8); }
  std::int64_t i64() { return static_cast<std::int64_t>(number(8)); }
  /// A text of at most `max_bytes`.
  std::string text(std::size_t max_bytes);
  std::string_view raw(std::size_t count);
  /// Call it after the last field. @throws WireError  if bytes remain
  void end() const;

 private:
  std::uint64_t number(int size_bytes);
  std::string_view rest_;
};

}  // namespace lockstep

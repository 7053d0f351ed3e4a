#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

namespace lockstep {

constexpr std::size_t kDigestBytes = 32;

/// HMAC-SHA256 (RFC 2104) of the concatenated `parts`. @param key  not empty
std::string hmac_sha256(std::string_view key, std::initializer_list<std::string_view> parts);

/// Compares in a time that does not depend on where `a` and `b` differ.
bool equal_in_constant_time(std::string_view a, std::string_view b);

/// `count` bytes from the system's cryptographic generator.
std::string random_bytes(std::size_t count);

/// `bytes` in hexadecimal digits.
std::string to_hex(std::string_view bytes);

/// Authenticates the frames of one direction of a connection. Each tag covers the frame's number, so a frame that was
/// changed, left out, repeated or moved does not verify.
class FrameMac {
 public:
  explicit FrameMac(std::string_view key);
  FrameMac(FrameMac&&) noexcept;
  FrameMac& operator=(FrameMac&&) noexcept;
  ~FrameMac();

  /// The tag of the next frame: HMAC-SHA256 of its number (from 0, 64 bits, little-endian), its header and its body.
  std::string next_tag(std::string_view header, std::string_view body);

 private:
  struct Context;
  std::unique_ptr<Context> context_;
  std::uint64_t sequence_ = 0;
};

}  // namespace lockstep

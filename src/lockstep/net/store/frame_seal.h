#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>

#include "lockstep/net/hmac.h"
#include "lockstep/net/record_cipher.h"

namespace lockstep {

/// What protects the frames of one direction of a store's connection: nothing (Unix sockets), a code that proves where
/// they come from, or encryption, which does that too.
class FrameSeal {
 public:
  FrameSeal() = default;
  explicit FrameSeal(FrameMac mac) : kind_(std::move(mac)) {}
  explicit FrameSeal(RecordCipher cipher) : kind_(std::move(cipher)) {}

  /// How much longer a sealed body is.
  std::size_t extra_bytes() const;
  /// Appends the sealed body of the next frame to `out`. @param header  is sent as it is, and proven too
  void seal(std::string_view header, std::string_view body, std::string& out);
  /// The body of the next frame. @param sealed  at least `extra_bytes()`
  /// @throws WireError  if it is not what the other side sealed
  std::string open(std::string_view header, std::string_view sealed);

 private:
  std::variant<std::monostate, FrameMac, RecordCipher> kind_;
};

/// The seals of a connection over TCP, for the side that sends and the side that receives.
FrameSeal sealing_seal(const std::string& key, bool encrypted);
FrameSeal opening_seal(const std::string& key, bool encrypted);

}  // namespace lockstep

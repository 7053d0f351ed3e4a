#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace lockstep {

/// What precedes the bytes of every message, and all that a grant consists of.
struct FrameHeader {
  static constexpr std::size_t kBytes = 16;

  std::uint64_t mark = 0;   ///< the slot of a message, the mark of a packet
  std::uint64_t bytes = 0;  ///< of the message

  /// Little-endian.
  std::array<char, kBytes> encode() const {
    std::array<char, kBytes> out;
    for (std::size_t i = 0; i < 8; ++i) {
      out[i] = static_cast<char>(mark >> (8 * i));
      out[8 + i] = static_cast<char>(bytes >> (8 * i));
    }
    return out;
  }
  static FrameHeader decode(const char* in) {
    FrameHeader header;
    for (std::size_t i = 0; i < 8; ++i) {
      header.mark |= std::uint64_t{static_cast<unsigned char>(in[i])} << (8 * i);
      header.bytes |= std::uint64_t{static_cast<unsigned char>(in[8 + i])} << (8 * i);
    }
    return header;
  }
};

}  // namespace lockstep

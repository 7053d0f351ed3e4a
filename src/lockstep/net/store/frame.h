#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/net/store/frame_seal.h"

namespace lockstep {

/// The largest body of a frame: one value of the store at its limit, its key, and the numbers beside them.
constexpr std::size_t kMaxFrameBytes = (std::size_t{8} << 20) + (std::size_t{64} << 10);

/// Frames to send on a connection: length of the body (32 bits), then the body, sealed.
class FrameWriter {
 public:
  explicit FrameWriter(FrameSeal seal) : seal_(std::move(seal)) {}

  /// Queues a frame. @param body  at most kMaxFrameBytes
  void push(std::string_view body);
  /// Sends what the socket accepts now. @throws WireError  if the connection is broken
  void flush(int fd);
  std::size_t pending_bytes() const { return buffer_.size() - sent_; }

 private:
  FrameSeal seal_;
  std::string buffer_;
  std::size_t sent_ = 0;
};

/// Frames that arrive on a connection. Memory grows with the bytes that have arrived, never with a length that was only
/// announced.
class FrameReader {
 public:
  explicit FrameReader(FrameSeal seal) : seal_(std::move(seal)) {}

  /// Reads the bytes that are there, at most about 64 KiB. @return  false at the end of the stream
  /// @throws WireError  if the connection is broken
  bool read_from(int fd);
  /// The body of the next frame, if it is complete.
  /// @throws WireError  if it is longer than kMaxFrameBytes, or its tag is wrong
  std::optional<std::string> next();

 private:
  FrameSeal seal_;
  std::string buffer_;
  std::size_t taken_ = 0;
};

}  // namespace lockstep

#pragma once

#include <optional>
#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/base/files/unique_fd.h"
#include "lockstep/net/server/waiters.h"
#include "lockstep/net/sockets/encryption.h"
#include "lockstep/net/store/frame.h"
#include "lockstep/net/store/handshake.h"

namespace lockstep {

/// One accepted connection of a store's server: first a handshake, then frames.
class ServerConnection {
 public:
  /// @param sealed  frames are protected (TCP)
  ServerConnection(ConnectionId id, UniqueFd fd, const std::string& secret, bool sealed)
      : id_(id), fd_(std::move(fd)), handshake_(secret, asks_for_encryption(fd_.get())), sealed_(sealed) {}

  ConnectionId id() const { return id_; }
  int fd() const { return fd_.get(); }
  bool proven() const { return reader_.has_value(); }
  Deadline::Clock::time_point accepted_at() const { return accepted_at_; }

  /// Reads the bytes that have arrived, up to a limit. @return  false at the end of the stream
  /// @throws WireError  if the connection is broken, or the peer speaks another protocol or does not know the secret
  bool read();
  /// The next whole frame. Nothing while too many bytes wait to be sent: a client that does not read gets no more
  /// answers.
  std::optional<std::string> next_frame();
  /// Sends, or queues what the socket does not accept now.
  /// @throws WireError  if the connection is broken, or too much is queued
  void send(const std::string& body);
  void flush();

  bool wants_to_read() const { return !proven() || writer_->pending_bytes() < kMaxPendingBytes; }
  bool wants_to_write() const { return proven() && writer_->pending_bytes() > 0; }

 private:
  static constexpr std::size_t kMaxPendingBytes = std::size_t{1} << 20;  // then reading stops
  static constexpr std::size_t kMaxQueuedBytes = std::size_t{64} << 20;  // then the connection is dropped

  bool read_handshake();

  ConnectionId id_;
  UniqueFd fd_;
  ServerHandshake handshake_;
  bool sealed_;
  Deadline::Clock::time_point accepted_at_ = Deadline::Clock::now();
  std::optional<FrameReader> reader_;
  std::optional<FrameWriter> writer_;
};

}  // namespace lockstep

#include "lockstep/net/server/server_connection.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/net/store/wire.h"

namespace lockstep {

bool ServerConnection::read() { return proven() ? reader_->read_from(fd()) : read_handshake(); }

bool ServerConnection::read_handshake() {
  // Never more than the handshake's next message, so a stranger can make the server hold only 44 bytes.
  std::array<char, 64> block;
  const ssize_t got = ::recv(fd(), block.data(), handshake_.wanted_bytes(), MSG_DONTWAIT);
  if (got == 0) return false;
  if (got < 0) {
    if (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK) return true;
    throw WireError(errno_text(errno));
  }
  const std::string answer = handshake_.take(std::string_view(block.data(), static_cast<std::size_t>(got)));
  if (!answer.empty() &&
      ::send(fd(), answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT) != static_cast<ssize_t>(answer.size())) {
    throw WireError("does not take the handshake");
  }
  if (handshake_.done()) {
    const SessionKeys& keys = handshake_.keys();
    reader_.emplace(sealed_ ? opening_seal(keys.client_to_server, keys.encrypted) : FrameSeal());
    writer_.emplace(sealed_ ? sealing_seal(keys.server_to_client, keys.encrypted) : FrameSeal());
  }
  return true;
}

std::optional<std::string> ServerConnection::next_frame() {
  if (!proven() || !wants_to_read()) return std::nullopt;
  return reader_->next();
}

void ServerConnection::send(const std::string& body) {
  writer_->push(body);
  if (writer_->pending_bytes() > kMaxQueuedBytes) {
    throw WireError(fmt::format("does not read its answers: {} bytes wait", writer_->pending_bytes()));
  }
  writer_->flush(fd());
}

void ServerConnection::flush() {
  if (wants_to_write()) writer_->flush(fd());
}

}  // namespace lockstep

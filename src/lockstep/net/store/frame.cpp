#include "lockstep/net/store/frame.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/net/store/wire.h"

namespace lockstep {
namespace {

constexpr std::size_t kHeaderBytes = 4;
constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr std::size_t kKeptBytes = std::size_t{1} << 20;  // larger buffers are freed once they are empty

// Removes the used bytes from the front, once they are all or most of the buffer.
void drop_front(std::string& buffer, std::size_t& used) {
  if (used == buffer.size()) {
    if (buffer.capacity() > kKeptBytes) {
      std::string().swap(buffer);
    } else {
      buffer.clear();
    }
    used = 0;
  } else if (used > buffer.size() / 2) {
    buffer.erase(0, used);
    used = 0;
  }
}

}  // namespace

void FrameWriter::push(std::string_view body) {
  WireWriter header;
  header.u32(static_cast<std::uint32_t>(body.size()));
  buffer_ += header.bytes();
  seal_.seal(header.bytes(), body, buffer_);
}

void FrameWriter::flush(int fd) {
  while (pending_bytes() > 0) {
    const ssize_t sent = ::send(fd, buffer_.data() + sent_, pending_bytes(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      throw WireError(errno_text(errno));
    }
    sent_ += static_cast<std::size_t>(sent);
  }
  drop_front(buffer_, sent_);
}

bool FrameReader::read_from(int fd) {
  std::array<char, kReadBytes> block;
  for (;;) {
    const ssize_t got = ::recv(fd, block.data(), block.size(), MSG_DONTWAIT);
    if (got == 0) return false;
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return true;
      throw WireError(errno_text(errno));
    }
    buffer_.append(block.data(), static_cast<std::size_t>(got));
    return true;
  }
}

std::optional<std::string> FrameReader::next() {
  const std::string_view rest = std::string_view(buffer_).substr(taken_);
  if (rest.size() < kHeaderBytes) return std::nullopt;
  const std::string_view header = rest.substr(0, kHeaderBytes);
  const std::size_t body_bytes = WireReader(header).u32();
  if (body_bytes > kMaxFrameBytes) {
    throw WireError(fmt::format("announced a message of {} bytes, more than {}", body_bytes, kMaxFrameBytes));
  }
  const std::size_t frame_bytes = kHeaderBytes + body_bytes + seal_.extra_bytes();
  if (rest.size() < frame_bytes) return std::nullopt;
  std::string body = seal_.open(header, rest.substr(kHeaderBytes, frame_bytes - kHeaderBytes));
  taken_ += frame_bytes;
  drop_front(buffer_, taken_);
  return body;
}

}  // namespace lockstep

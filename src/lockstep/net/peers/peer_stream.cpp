#include "lockstep/net/peers/peer_stream.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/net/record_cipher.h"

namespace lockstep {
namespace {

constexpr int kNoWaiting = MSG_DONTWAIT | MSG_NOSIGNAL;
constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kRecordOverhead = kLengthBytes + RecordCipher::kTagBytes;
// Some records, so that one call to the kernel brings more than one.
constexpr std::size_t kArrivedBytes = 4 * (PeerStream::kRecordBytes + kRecordOverhead);

// A cursor over the bytes of several parts.
class Parts {
 public:
  Parts(const iovec* parts, std::size_t count) : parts_(parts), count_(count) { skip_full(); }

  bool at_end() const { return at_ == count_; }
  char* place() const { return static_cast<char*>(parts_[at_].iov_base) + offset_; }
  std::size_t contiguous() const { return parts_[at_].iov_len - offset_; }
  std::size_t passed() const { return passed_; }
  void pass(std::size_t bytes) {
    offset_ += bytes;
    passed_ += bytes;
    skip_full();
  }

 private:
  void skip_full() {
    for (; at_ < count_ && offset_ == parts_[at_].iov_len; ++at_) offset_ = 0;
  }
  const iovec* parts_;
  std::size_t count_;
  std::size_t at_ = 0;
  std::size_t offset_ = 0;
  std::size_t passed_ = 0;
};

// Memory whose bytes between `begin` and `end` are still to be used.
struct Held {
  explicit Held(std::size_t bytes) : memory(new char[bytes]), capacity(bytes) {}
  std::size_t size() const { return end - begin; }
  const char* data() const { return memory.get() + begin; }
  void take(std::size_t bytes) {
    begin += bytes;
    if (begin == end) begin = end = 0;
  }
  void move_to_front() {
    std::memmove(memory.get(), data(), size());
    end -= std::exchange(begin, 0);
  }
  std::unique_ptr<char[]> memory;
  std::size_t capacity;
  std::size_t begin = 0;
  std::size_t end = 0;
};

std::array<char, kLengthBytes> encode_length(std::size_t bytes) {
  std::array<char, kLengthBytes> out;
  for (std::size_t i = 0; i < kLengthBytes; ++i) out[i] = static_cast<char>(bytes >> (8 * i));
  return out;
}

std::size_t decode_length(const char* in) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) bytes |= std::size_t{static_cast<unsigned char>(in[i])} << (8 * i);
  return bytes;
}

ssize_t failed_with(int code) {
  errno = code;
  return -1;
}

msghdr message_of(const iovec* parts, std::size_t count) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts);
  message.msg_iovlen = count;
  return message;
}

}  // namespace

struct PeerStream::Encryption {
  explicit Encryption(const StreamKeys& keys)
      : seals(RecordCipher::Direction::Seal, keys.send), opens(RecordCipher::Direction::Open, keys.receive) {}

  ssize_t send(int fd, const iovec* parts, std::size_t count);
  bool flush(int fd);
  ssize_t receive(int fd, const iovec* parts, std::size_t count, bool from_socket);
  bool holds_record() const;

  RecordCipher seals;
  RecordCipher opens;
  Held outgoing{kRecordBytes + kRecordOverhead};
  int send_failure = 0;
  Held arrived{kArrivedBytes};
  Held opened{kRecordBytes};  // of a record that was longer than its place
  bool tampered = false;

 private:
  void seal_record(Parts& parts);
  bool open_record(Parts& parts);
};

void PeerStream::Encryption::seal_record(Parts& parts) {
  std::array<iovec, 2> pieces;
  std::size_t count = 0;
  std::size_t bytes = 0;
  for (; count < pieces.size() && bytes < kRecordBytes && !parts.at_end(); ++count) {
    const std::size_t piece = std::min(parts.contiguous(), kRecordBytes - bytes);
    pieces[count] = {parts.place(), piece};
    parts.pass(piece);
    bytes += piece;
  }
  const auto length = encode_length(bytes);
  std::copy(length.begin(), length.end(), outgoing.memory.get());
  seals.seal(std::string_view(length.data(), length.size()), pieces.data(), count,
             outgoing.memory.get() + kLengthBytes);
  outgoing.begin = 0;
  outgoing.end = bytes + kRecordOverhead;
}

bool PeerStream::Encryption::flush(int fd) {
  while (outgoing.size() > 0 && send_failure == 0) {
    const ssize_t sent = ::send(fd, outgoing.data(), outgoing.size(), kNoWaiting);
    if (sent >= 0) {
      outgoing.take(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return true;
    } else if (errno != EINTR) {
      send_failure = errno;
    }
  }
  return false;
}

ssize_t PeerStream::Encryption::send(int fd, const iovec* parts, std::size_t count) {
  Parts rest(parts, count);
  while (!flush(fd)) {
    if (send_failure != 0) return failed_with(send_failure);
    if (rest.at_end()) return static_cast<ssize_t>(rest.passed());
    seal_record(rest);
  }
  return rest.passed() > 0 ? static_cast<ssize_t>(rest.passed()) : failed_with(EAGAIN);
}

bool PeerStream::Encryption::holds_record() const {
  if (arrived.size() < kRecordOverhead) return false;
  const std::size_t bytes = decode_length(arrived.data());
  return bytes > kRecordBytes || arrived.size() >= bytes + kRecordOverhead;
}

// The next record goes where it belongs, or waits in `opened`.
bool PeerStream::Encryption::open_record(Parts& parts) {
  const std::size_t bytes = decode_length(arrived.data());
  const bool fits = bytes <= parts.contiguous();
  if (bytes == 0 || bytes > kRecordBytes ||
      !opens.open(std::string_view(arrived.data(), kLengthBytes),
                  std::string_view(arrived.data() + kLengthBytes, bytes + RecordCipher::kTagBytes),
                  fits ? parts.place() : opened.memory.get())) {
    return false;
  }
  arrived.take(bytes + kRecordOverhead);
  if (fits) {
    parts.pass(bytes);
  } else {
    opened.end = bytes;
  }
  return true;
}

ssize_t PeerStream::Encryption::receive(int fd, const iovec* parts, std::size_t count, bool from_socket) {
  Parts rest(parts, count);
  const auto so_far = [&](ssize_t otherwise) {
    return rest.passed() > 0 ? static_cast<ssize_t>(rest.passed()) : otherwise;
  };
  while (!rest.at_end()) {
    if (opened.size() > 0) {
      const std::size_t bytes = std::min(opened.size(), rest.contiguous());
      std::memcpy(rest.place(), opened.data(), bytes);
      opened.take(bytes);
      rest.pass(bytes);
    } else if (tampered) {
      return so_far(failed_with(EBADMSG));
    } else if (holds_record()) {
      tampered = !open_record(rest);
    } else if (!from_socket) {
      return so_far(failed_with(EAGAIN));
    } else {
      arrived.move_to_front();
      const ssize_t got = ::recv(fd, arrived.memory.get() + arrived.end, arrived.capacity - arrived.end, MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return so_far(got);
      arrived.end += static_cast<std::size_t>(got);
    }
  }
  return static_cast<ssize_t>(rest.passed());
}

PeerStream::PeerStream() = default;
PeerStream::PeerStream(UniqueFd fd) : fd_(std::move(fd)) {}
PeerStream::PeerStream(UniqueFd fd, const StreamKeys& keys)
    : fd_(std::move(fd)), encryption_(std::make_unique<Encryption>(keys)) {}
PeerStream::PeerStream(PeerStream&&) noexcept = default;
PeerStream& PeerStream::operator=(PeerStream&&) noexcept = default;
PeerStream::~PeerStream() = default;

ssize_t PeerStream::send(const iovec* parts, std::size_t count) {
  if (encryption_) return encryption_->send(fd(), parts, count);
  const msghdr message = message_of(parts, count);
  return ::sendmsg(fd(), &message, kNoWaiting);
}

bool PeerStream::flush() { return encryption_ && encryption_->flush(fd()); }

ssize_t PeerStream::receive(const iovec* parts, std::size_t count, bool from_socket) {
  if (encryption_) return encryption_->receive(fd(), parts, count, from_socket);
  if (!from_socket) return failed_with(EAGAIN);
  msghdr message = message_of(parts, count);
  return ::recvmsg(fd(), &message, MSG_DONTWAIT);
}

bool PeerStream::holds_bytes() const {
  return encryption_ && (encryption_->opened.size() > 0 || encryption_->holds_record());
}

std::string PeerStream::text_of(int code) {
  if (code != EBADMSG) return errno_text(code);
  return "bytes that arrived are not those that the other side encrypted: they were changed on the way, repeated or "
         "injected";
}

}  // namespace lockstep

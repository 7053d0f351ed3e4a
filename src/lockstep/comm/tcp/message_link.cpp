#include "lockstep/comm/tcp/message_link.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/tcp/tcp_buffer.h"

namespace lockstep {
namespace {

// Then the thread looks at its other connections.
constexpr std::size_t kBytesAtOnce = std::size_t{4} << 20;

bool would_block(int code) { return code == EAGAIN || code == EWOULDBLOCK; }

}  // namespace

// While the mesh's thread copies between a message's memory and the kernel, others may post and stop.
class MessageLink::Unlocked {
 public:
  Unlocked(MessageLink& link, std::unique_lock<std::mutex>& lock) : link_(link), lock_(lock) {
    link_.transferring_ = true;
    lock_.unlock();
  }
  ~Unlocked() {
    lock_.lock();
    link_.transferring_ = false;
    if (link_.stopped_) link_.quiet_.notify_all();
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  MessageLink& link_;
  std::unique_lock<std::mutex>& lock_;
};

bool MessageLink::post_send(std::uint64_t slot, const PostedMessage& message) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stopped_) return false;
  if (!loss_.empty()) {
    message.owner->failed(loss_);
    return false;
  }
  // Messages of one slot go in order, so one that waits is ahead.
  if (sends_.has(slot)) {
    sends_.add(slot, message);
    return false;
  }
  const auto granted = early_grants_.take(slot);
  if (!granted) {
    sends_.add(slot, message);
    return false;
  }
  if (*granted != message.bytes) {
    lose("the other side wants " + std::to_string(*granted) + " bytes, and this one sends " +
         std::to_string(message.bytes));
    message.owner->failed(loss_);
    return true;
  }
  return start_send(slot, message);
}

bool MessageLink::start_send(std::uint64_t slot, const PostedMessage& message) {
  granted_sends_.push_back({message, FrameHeader{slot, message.bytes}.encode()});
  return granted_sends_.size() == 1;
}

bool MessageLink::post_recv(std::uint64_t slot, const PostedMessage& message) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stopped_) return false;
  if (!loss_.empty()) {
    message.owner->failed(loss_);
    return false;
  }
  receives_.add(slot, message);
  const auto header = FrameHeader{slot, message.bytes}.encode();
  const bool waits = !outgoing_grants_.empty() || grants_.flush();
  outgoing_grants_.append(header.data(), header.size());
  return !waits && flush_grants();
}

bool MessageLink::flush_grants() {
  while (!outgoing_grants_.empty()) {
    const iovec grants{outgoing_grants_.data(), outgoing_grants_.size()};
    const ssize_t sent = grants_.send(&grants, 1);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && would_block(errno)) return true;
    if (sent < 0) {  // the end of the other connection says why, after what was sent before it
      outgoing_grants_.clear();
      return false;
    }
    outgoing_grants_.erase(0, static_cast<std::size_t>(sent));
  }
  return grants_.flush();
}

bool MessageLink::write_grants() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return !stopped_ && flush_grants();
}

bool MessageLink::write_messages() {
  std::unique_lock<std::mutex> lock(mutex_);
  std::size_t written = 0;
  while (!stopped_ && loss_.empty() && !write_failed_ && !granted_sends_.empty()) {
    if (written >= kBytesAtOnce) return true;
    Transfer& transfer = granted_sends_.front();  // stays in its place: others only append
    const std::size_t header_left = FrameHeader::kBytes - std::min(FrameHeader::kBytes, transfer.done);
    const std::size_t body_done = transfer.done + header_left - FrameHeader::kBytes;
    const iovec parts[2] = {{transfer.header.data() + FrameHeader::kBytes - header_left, header_left},
                            {transfer.message.data + body_done, transfer.message.bytes - body_done}};
    ssize_t sent = 0;
    int code = 0;
    bool waits = false;  // of what was taken
    {
      const Unlocked unlocked(*this, lock);
      if (header_left + parts[1].iov_len > 0) sent = messages_.send(parts, 2);
      code = errno;
      waits = sent >= 0 && messages_.flush();
    }
    if (stopped_ || !loss_.empty()) return false;
    if (sent < 0 && code == EINTR) continue;
    if (sent < 0 && would_block(code)) return true;
    if (sent < 0) {
      write_failed_ = true;
      return false;
    }
    transfer.done += static_cast<std::size_t>(sent);
    written += static_cast<std::size_t>(sent);
    if (waits) return true;
    if (transfer.done < FrameHeader::kBytes + transfer.message.bytes) continue;
    TcpBuffer* const owner = transfer.message.owner;
    granted_sends_.pop_front();
    owner->sent();
  }
  return false;
}

bool MessageLink::take_header() {
  const FrameHeader header = FrameHeader::decode(incoming_header_.data());
  receiving_ = receives_.take(header);
  if (!receiving_) {
    lose("the other side sent " + std::to_string(header.bytes) + " bytes that nobody here asked for");
    return false;
  }
  incoming_header_bytes_ = 0;
  received_ = 0;
  return true;
}

bool MessageLink::read_messages() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (std::size_t read = 0; !stopped_ && loss_.empty();) {
    const bool from_socket = read < kBytesAtOnce;
    if (!from_socket && !messages_.holds_bytes()) break;
    // With the end of one message the next header is read.
    iovec parts[2] = {{nullptr, 0},
                      {incoming_header_.data() + incoming_header_bytes_, FrameHeader::kBytes - incoming_header_bytes_}};
    if (receiving_) parts[0] = {receiving_->data + received_, receiving_->bytes - received_};
    const std::size_t wanted = parts[0].iov_len + parts[1].iov_len;
    ssize_t got = 0;
    int code = 0;
    {
      const Unlocked unlocked(*this, lock);
      got = messages_.receive(parts, 2, from_socket);
      code = errno;
    }
    if (stopped_ || !loss_.empty()) break;
    if (got < 0 && code == EINTR) continue;
    if (got < 0 && would_block(code)) return true;
    if (got <= 0) {
      lose(got == 0 ? "the other side ended the connection" : PeerStream::text_of(code));
      break;
    }
    const auto arrived = static_cast<std::size_t>(got);
    read += arrived;
    const std::size_t body = std::min(arrived, parts[0].iov_len);
    received_ += body;
    incoming_header_bytes_ += arrived - body;
    if (receiving_ && received_ == receiving_->bytes) std::exchange(receiving_, std::nullopt)->owner->received();
    if (!receiving_ && incoming_header_bytes_ == FrameHeader::kBytes) {
      if (!take_header()) break;
      if (receiving_->bytes == 0) std::exchange(receiving_, std::nullopt)->owner->received();
    }
    if (arrived < wanted) return true;
  }
  return !stopped_ && loss_.empty();
}

bool MessageLink::grant(const FrameHeader& header) {
  if (!sends_.has(header.mark)) {
    if (early_grants_.add(header)) return true;
    lose("the other side grants more messages than a group has");
    return false;
  }
  const auto message = sends_.take(header);
  if (!message) {
    lose("the other side wants " + std::to_string(header.bytes) + " bytes, and this one sends another number");
    return false;
  }
  start_send(header.mark, *message);
  return true;
}

bool MessageLink::read_grants() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stopped_) return false;
  char block[64 * FrameHeader::kBytes];
  for (;;) {
    const iovec room{block, sizeof(block)};
    const ssize_t got = grants_.receive(&room, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && would_block(errno)) return true;
    if (got < 0 && errno == EBADMSG) lose(PeerStream::text_of(errno));
    if (got <= 0) return false;  // what was sent before is still to be read from the other connection
    incoming_grants_.append(block, static_cast<std::size_t>(got));
    std::size_t at = 0;
    for (; incoming_grants_.size() - at >= FrameHeader::kBytes; at += FrameHeader::kBytes) {
      if (!grant(FrameHeader::decode(incoming_grants_.data() + at))) return false;
    }
    incoming_grants_.erase(0, at);
    if (static_cast<std::size_t>(got) < sizeof(block)) return true;
  }
}

std::string MessageLink::loss() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return loss_;
}

void MessageLink::lose(const std::string& reason) {
  if (stopped_ || !loss_.empty()) return;
  loss_ = reason;
  const auto fail = [&](const PostedMessage& message) { message.owner->failed(reason); };
  sends_.take_all(fail);
  receives_.take_all(fail);
  for (const Transfer& transfer : granted_sends_) fail(transfer.message);
  granted_sends_.clear();
  if (receiving_) fail(*std::exchange(receiving_, std::nullopt));
}

void MessageLink::stop() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  stopped_ = true;
  ::shutdown(messages_.fd(), SHUT_RDWR);
  ::shutdown(grants_.fd(), SHUT_RDWR);
}

void MessageLink::await_quiet() {
  std::unique_lock<std::mutex> lock(mutex_);
  quiet_.wait(lock, [this] { return !transferring_; });
}

}  // namespace lockstep

#include "lockstep/comm/tcp/tcp_buffer.h"

#include <stdexcept>

namespace lockstep {

TcpBuffer::TcpBuffer(TcpTraffic& mesh, void* data, std::size_t bytes)
    : mesh_(mesh), data_(static_cast<std::byte*>(data)), bytes_(bytes) {
  mesh_.enter(*this);
}

TcpBuffer::~TcpBuffer() { mesh_.leave(*this, pending_sends_ > 0 || pending_receives_ > 0); }

void TcpBuffer::send(int to, std::uint64_t slot, std::size_t offset, std::size_t bytes) {
  std::byte* const at = place(offset, bytes);
  ++pending_sends_;
  mesh_.post_send(to, slot, *this, at, bytes);
}

void TcpBuffer::recv(int from, std::uint64_t slot, std::size_t offset, std::size_t bytes) {
  std::byte* const at = place(offset, bytes);
  ++pending_receives_;
  mesh_.post_recv(from, slot, *this, at, bytes);
}

std::byte* TcpBuffer::place(std::size_t offset, std::size_t bytes) const {
  if (offset > bytes_ || bytes > bytes_ - offset) throw std::logic_error("a message outside of its buffer");
  return data_ + offset;
}

void TcpBuffer::end(int& count) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++count;
  changed_.notify_all();
}

void TcpBuffer::failed(const std::string& reason) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (failure_.empty()) failure_ = reason;
  changed_.notify_all();
}

void TcpBuffer::wake() {
  const std::lock_guard<std::mutex> lock(mutex_);
  changed_.notify_all();
}

void TcpBuffer::wait(int& ended, int& pending) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return ended > 0 || !failure_.empty() || mesh_.is_broken(); });
  if (ended == 0 || mesh_.is_broken()) {
    const std::string failure = failure_;
    lock.unlock();
    mesh_.fail(failure);
  }
  --ended;
  --pending;
}

}  // namespace lockstep

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "lockstep/comm/mesh/mesh.h"

namespace lockstep {

/// A buffer that counts its pending sends and receives.
class Traffic {
 public:
  Traffic(Mesh& mesh, const void* data, std::size_t bytes) : buffer_(mesh.buffer(const_cast<void*>(data), bytes)) {}

  void send(int to, std::uint64_t slot, std::size_t offset, std::size_t bytes) {
    buffer_->send(to, slot, offset, bytes);
    ++sends_;
  }
  void recv(int from, std::uint64_t slot, std::size_t offset, std::size_t bytes) {
    buffer_->recv(from, slot, offset, bytes);
    ++receives_;
  }
  void wait_received(int count) {
    for (; count > 0; --count, --receives_) buffer_->wait_received();
  }
  void wait_sent(int count) {
    for (; count > 0; --count, --sends_) buffer_->wait_sent();
  }
  void wait_all() {
    wait_received(receives_);
    wait_sent(sends_);
  }

 private:
  std::unique_ptr<MeshBuffer> buffer_;
  int sends_ = 0;
  int receives_ = 0;
};

/// Calls `each(offset, length)` for the segments of [0, bytes).
template <typename Each>
void for_segments(std::size_t bytes, std::size_t segment, const Each& each) {
  for (std::size_t offset = 0; offset < bytes; offset += segment) each(offset, std::min(segment, bytes - offset));
}

}  // namespace lockstep

#include "lockstep/comm/tcp/packet_lane.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lockstep/comm/mesh/mesh.h"

namespace lockstep {

PacketLane::PacketLane(PeerStream stream, std::size_t packet_bytes)
    : stream_(std::move(stream)),
      packet_bytes_(packet_bytes),
      capacity_(kRoom * (FrameHeader::kBytes + packet_bytes)),
      memory_(new char[capacity_]) {}

PacketLane::Reading PacketLane::read() {
  for (;;) {
    const iovec room{memory_.get() + end_, capacity_ - end_};
    const ssize_t got = stream_.receive(&room, 1);
    if (got > 0) {
      end_ += static_cast<std::size_t>(got);
      return Reading::Arrived;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Reading::Nothing;
    if (got < 0 && errno == EBADMSG) throw MeshError(MeshError::Kind::Lost, PeerStream::text_of(errno));
    ended_ = true;
    return Reading::Ended;
  }
}

std::optional<PacketLane::Packet> PacketLane::next() {
  const std::size_t here = end_ - begin_;
  if (here < FrameHeader::kBytes) return std::nullopt;
  const FrameHeader header = FrameHeader::decode(memory_.get() + begin_);
  if (header.bytes > packet_bytes_) {
    throw MeshError(MeshError::Kind::Lost, "the other side sent a packet of " + std::to_string(header.bytes) +
                                               " bytes, and at most " + std::to_string(packet_bytes_) + " are allowed");
  }
  if (here < FrameHeader::kBytes + header.bytes) return std::nullopt;
  return Packet{header, memory_.get() + begin_ + FrameHeader::kBytes};
}

void PacketLane::release() {
  begin_ += FrameHeader::kBytes + FrameHeader::decode(memory_.get() + begin_).bytes;
  // The next packet must fit as a whole.
  if (begin_ != end_ && capacity_ - begin_ >= FrameHeader::kBytes + packet_bytes_) return;
  std::memmove(memory_.get(), memory_.get() + begin_, end_ - begin_);
  end_ -= std::exchange(begin_, 0);
}

std::optional<std::size_t> PacketLane::send(const FrameHeader& header, const void* data, std::size_t done) {
  auto head = header.encode();
  const std::size_t head_done = std::min(done, head.size());
  const std::size_t body_done = done - head_done;
  const iovec parts[2] = {{head.data() + head_done, head.size() - head_done},
                          {static_cast<char*>(const_cast<void*>(data)) + body_done, header.bytes - body_done}};
  for (;;) {
    const ssize_t sent = stream_.send(parts, 2);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    return std::nullopt;
  }
}

}  // namespace lockstep

#include "lockstep/comm/gloo/packets.h"

#include <cstring>
#include <exception>

namespace lockstep {
namespace {

// The numbers of the memory on each side differ: when a buffer for sending is destroyed, Gloo also drops the memory for
// receiving with an equal number.
constexpr int kFirstNumber = 0x100;
constexpr int kSecondNumber = 0x200;
constexpr int kGrant = 0x80;

}  // namespace

PacketChannel::PacketChannel(gloo::transport::Pair& pair, bool first, std::size_t payload_bytes)
    : packet_bytes_(sizeof(Header) + payload_bytes + sizeof(std::uint64_t)),
      outgoing_memory_(packet_bytes_ * kRoom),
      incoming_memory_(packet_bytes_ * kRoom) {
  const int here = first ? kFirstNumber : kSecondNumber;
  const int there = first ? kSecondNumber : kFirstNumber;
  for (int i = 0; i < kRoom; ++i) {
    const std::size_t offset = static_cast<std::size_t>(i) * packet_bytes_;
    incoming_.push_back(pair.createRecvBuffer(here + i, incoming_memory_.data() + offset, packet_bytes_));
    outgoing_.push_back(pair.createSendBuffer(there + i, outgoing_memory_.data() + offset, packet_bytes_));
  }
  grant_in_ = pair.createRecvBuffer(here + kGrant, &granted_in_, 1);
  grant_out_ = pair.createSendBuffer(there + kGrant, &granted_out_, 1);
}

void PacketChannel::send(std::uint64_t mark, const void* data, std::size_t bytes) {
  if (room_ == 0) {
    grant_in_->waitRecv();
    room_ += kRoom / 2;
  }
  const std::size_t index = sent_ % kRoom;
  gloo::transport::Buffer& buffer = *outgoing_[index];
  if (sent_ >= kRoom) buffer.waitSend();  // the previous packet in this memory
  char* const packet = outgoing_memory_.data() + index * packet_bytes_;
  const Header header{sent_ + 1, mark, bytes};
  std::memcpy(packet, &header, sizeof(header));
  if (bytes > 0) std::memcpy(packet + sizeof(header), data, bytes);
  std::memcpy(packet + sizeof(header) + bytes, &header.number, sizeof(header.number));
  buffer.send(0, sizeof(header) + bytes + sizeof(header.number), 0);
  ++sent_;
  --room_;
}

bool PacketChannel::arrived(std::size_t index, std::size_t bytes) const {
  const char* const packet = incoming_memory_.data() + index * packet_bytes_;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::memcpy(&first, packet, sizeof(first));
  std::memcpy(&last, packet + sizeof(Header) + bytes, sizeof(last));
  return first == received_ + 1 && last == received_ + 1;
}

const void* PacketChannel::receive(std::uint64_t mark, std::size_t bytes) {
  const std::size_t index = received_ % kRoom;
  try {
    incoming_[index]->waitRecv();
  } catch (const std::exception&) {
    // The peer may have sent this packet as its last and closed the connection. Gloo then reports the end first.
    if (!arrived(index, bytes)) throw;
  }
  const char* const packet = incoming_memory_.data() + index * packet_bytes_;
  Header header;
  std::memcpy(&header, packet, sizeof(header));
  return header.mark == mark && header.bytes == bytes ? packet + sizeof(header) : nullptr;
}

void PacketChannel::release() {
  ++received_;
  if (received_ % (kRoom / 2) != 0) return;
  try {
    if (received_ > kRoom / 2) grant_out_->waitSend();
    grant_out_->send(0, 1, 0);
  } catch (const std::exception&) {
    // A peer that has left needs no room. If it should still be there, the next operation notices.
  }
}

}  // namespace lockstep

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/comm/tcp/frame_header.h"
#include "lockstep/net/peers/peer_stream.h"

namespace lockstep {

/// The packets between this rank and one peer, over a connection of their own, which the thread that calls a collective
/// reads and writes by itself: so one wake-up carries a packet. Bytes are read ahead into memory for kRoom packets;
/// what does not fit there waits in the kernel. One thread at a time.
class PacketLane {
 public:
  static constexpr std::size_t kRoom = 8;
  /// How many packets may be sent before packets of the other side are awaited, if both sides do that.
  static constexpr std::size_t kAtOnce = kRoom / 2;

  struct Packet {
    FrameHeader header;
    const void* data;
  };
  enum class Reading { Arrived, Nothing, Ended };

  PacketLane(PeerStream stream, std::size_t packet_bytes);

  int fd() const { return stream_.fd(); }
  /// Reads what has arrived. Does not wait.
  /// @throws MeshError  if it is not what the other side sent
  Reading read();
  /// Whether `read` has room, and the connection has not ended.
  bool reads() const { return !ended_ && end_ < capacity_; }
  bool ended() const { return ended_; }
  /// The oldest packet, if it is here as a whole; its data are valid until `release`.
  /// @throws MeshError  if it is longer than a packet can be
  std::optional<Packet> next();
  void release();

  /// Sends the rest of a packet, from byte `done` on. @return  how much of it is sent now; nothing if the connection
  /// broke
  std::optional<std::size_t> send(const FrameHeader& header, const void* data, std::size_t done);
  /// @return  whether bytes of packets wait here until the connection takes more
  bool flush() { return stream_.flush(); }

 private:
  PeerStream stream_;
  const std::size_t packet_bytes_;
  const std::size_t capacity_;
  const std::unique_ptr<char[]> memory_;
  std::size_t begin_ = 0;  // of what was read and not released
  std::size_t end_ = 0;
  bool ended_ = false;
};

}  // namespace lockstep

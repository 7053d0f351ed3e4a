#pragma once

#include <gloo/transport/buffer.h>
#include <gloo/transport/pair.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep {

/// Small messages between two ranks, in order, without a posted receive: they arrive in memory reserved for them, so
/// that one write and one wake-up carry each. Both sides' memory has room for kRoom packets; the receiver reports when
/// half of them are free again. No packet is longer than that memory, whatever the ranks believe: Gloo ends the process
/// if one is.
///
/// Includes Gloo, so only gloo_mesh.cpp and packets.cpp may include this header. One thread at a time. Throws what Gloo
/// throws.
class PacketChannel {
 public:
  static constexpr int kRoom = 8;
  /// How many packets may be sent before packets of the other side are awaited, if both sides do that. kRoom would be
  /// too many: up to kRoom / 2 - 1 packets that the peer has read may not be granted again yet.
  static constexpr int kAtOnce = kRoom / 2;

  /// @param first  whether this rank is the lower one of the two
  PacketChannel(gloo::transport::Pair& pair, bool first, std::size_t payload_bytes);

  void send(std::uint64_t mark, const void* data, std::size_t bytes);
  /// The next packet's payload, valid until `release`; null if its mark or size differs. Waits for the packet.
  const void* receive(std::uint64_t mark, std::size_t bytes);
  void release();

 private:
  struct Header {
    std::uint64_t number;  ///< counts from 1
    std::uint64_t mark;
    std::uint64_t bytes;
  };
  bool arrived(std::size_t index, std::size_t bytes) const;

  std::size_t packet_bytes_;  // header, payload, and the number once more
  std::vector<char> outgoing_memory_;
  std::vector<char> incoming_memory_;
  char granted_out_ = 0;
  char granted_in_ = 0;
  std::vector<std::unique_ptr<gloo::transport::Buffer>> outgoing_;
  std::vector<std::unique_ptr<gloo::transport::Buffer>> incoming_;
  std::unique_ptr<gloo::transport::Buffer> grant_out_;
  std::unique_ptr<gloo::transport::Buffer> grant_in_;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  int room_ = kRoom;  // free places at the peer
};

}  // namespace lockstep

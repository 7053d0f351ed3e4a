#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "lockstep/comm/shm/group.h"
#include "lockstep/comm/shm/memory/memory_sharing.h"
#include "lockstep/comm/shm/protocols/channel_protocol.h"

namespace lockstep::shm {

/// Messages between two ranks, through one channel for each direction of each pair that is used. The sender makes the
/// channel's memory at its first message. A send returns when its data is in the channel or read.
///
/// One send at a time to each rank, and one receive at a time from each; otherwise thread-safe.
class PointToPoint {
 public:
  PointToPoint(Group& group, MemorySharing& sharing);
  ~PointToPoint();

  void send(const Call& call, const std::byte* data, std::size_t bytes, int to, int tag);
  /// The next message from `from` with `tag`; earlier messages with other tags are kept for their receives.
  /// @throws Error  if the message has another dtype or number of elements; the group has then ended
  void receive(const Call& call, std::byte* data, std::size_t bytes, int from, int tag);

 private:
  struct Outgoing;
  struct Incoming;
  struct Message {
    Announcement announcement;
    int tag = 0;
    std::size_t bytes = 0;
  };

  ChannelCell& cell(int from, int to) const;
  Label label_of(int from) const;
  void open_outgoing(Outgoing& outgoing, const Call& call, int to);
  void open_incoming(Incoming& incoming, const Call& call, int from);
  Message next_message(Incoming& incoming, const Call& call, int from);
  void take_pieces(Incoming& incoming, const Call& call, std::byte* to, std::size_t bytes);
  void check(const Call& call, int from, const Message& message, std::size_t bytes);

  Group& group_;
  MemorySharing& sharing_;
  std::vector<std::unique_ptr<Outgoing>> outgoing_;  // by rank
  std::vector<std::unique_ptr<Incoming>> incoming_;
};

}  // namespace lockstep::shm

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "lockstep/comm/tcp/frame_header.h"

namespace lockstep {

class TcpBuffer;

/// A send or receive that was posted: memory of its owner.
struct PostedMessage {
  TcpBuffer* owner = nullptr;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

/// Messages of one direction that wait for the other side's header, by slot, in order.
class PostedMessages {
 public:
  void add(std::uint64_t slot, const PostedMessage& message) { by_slot_[slot].push_back(message); }

  /// The message that `header` is for; nothing if no message with its slot is posted, or the first of them has another
  /// size. So no header can make more or other memory be used than was posted.
  std::optional<PostedMessage> take(const FrameHeader& header) {
    const auto found = by_slot_.find(header.mark);
    if (found == by_slot_.end() || found->second.front().bytes != header.bytes) return std::nullopt;
    const PostedMessage message = found->second.front();
    found->second.pop_front();
    if (found->second.empty()) by_slot_.erase(found);
    return message;
  }
  bool has(std::uint64_t slot) const { return by_slot_.count(slot) > 0; }

  /// Calls `each(message)` for all, and forgets them.
  template <typename Each>
  void take_all(const Each& each) {
    for (const auto& [slot, messages] : std::exchange(by_slot_, {})) {
      for (const PostedMessage& message : messages) each(message);
    }
  }

 private:
  std::map<std::uint64_t, std::deque<PostedMessage>> by_slot_;  // no deque is empty
};

/// Grants of the other side that came before the send that they allow, by slot, in order.
class EarlyGrants {
 public:
  /// A rank may be ahead by as many receives as a few operations post. More is not from a rank of ours.
  static constexpr std::size_t kMost = std::size_t{1} << 20;

  /// @return  false if there are too many
  bool add(const FrameHeader& grant) {
    by_slot_[grant.mark].push_back(grant.bytes);
    return ++count_ <= kMost;
  }
  /// The size that the next receive of this slot wants; nothing if there is no grant.
  std::optional<std::uint64_t> take(std::uint64_t slot) {
    const auto found = by_slot_.find(slot);
    if (found == by_slot_.end()) return std::nullopt;
    const std::uint64_t bytes = found->second.front();
    found->second.pop_front();
    if (found->second.empty()) by_slot_.erase(found);
    --count_;
    return bytes;
  }

 private:
  std::map<std::uint64_t, std::deque<std::uint64_t>> by_slot_;  // no deque is empty
  std::size_t count_ = 0;
};

}  // namespace lockstep

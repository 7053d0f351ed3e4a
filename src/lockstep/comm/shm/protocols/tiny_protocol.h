#pragma once

#include <cstdint>
#include <cstring>

#include "lockstep/comm/shm/memory/control_block.h"
#include "lockstep/comm/shm/memory/layout.h"

namespace lockstep::shm {

/// Messages so small that every rank sends its own to all and reads all others' in one step: the flag is beside the
/// data, and there is no second barrier. Boxes are used in turn (see kTinyBoxes).
///
/// `Memory` is Group, or the model checker's. One thread at a time per rank.
template <class Memory>
class TinyProtocol {
 public:
  explicit TinyProtocol(Memory& memory) : memory_(memory) {}

  /// Number of the next message; equal on every rank.
  std::uint64_t next() const { return sent_; }
  /// True if one more may be sent before `finish_read` of an older one.
  bool may_send() const { return sent_ < read_ + kTinyAhead; }

  void send(const Announcement& announcement, const std::byte* data, std::size_t bytes) {
    TinyBox& box = memory_.tiny_box(sent_, memory_.rank());
    for (std::size_t i = 0; i < announcement.words.size(); ++i) {
      memory_.store(box.announcement[i], announcement.words[i]);
    }
    memory_.write_payload(box, data, bytes);
    ++sent_;
    const std::uint64_t number = sent_ - 1;
    memory_.publish(box.arrived, sent_, [&] { return all_arrived(number); });
  }

  bool has_arrived(std::uint64_t number, int rank) {
    return memory_.load(memory_.tiny_box(number, rank).arrived) == number + 1;
  }
  bool all_arrived(std::uint64_t number) {
    for (int rank = 0; rank < memory_.world_size(); ++rank) {
      if (!has_arrived(number, rank)) return false;
    }
    return true;
  }
  template <class Call>
  void await_arrived(const Call& call, std::uint64_t number) {
    memory_.await(
        call, [&] { return all_arrived(number); }, [&](int rank) { return !has_arrived(number, rank); });
  }

  Announcement announcement(std::uint64_t number, int rank) {
    Announcement theirs;
    TinyBox& box = memory_.tiny_box(number, rank);
    for (std::size_t i = 0; i < theirs.words.size(); ++i) theirs.words[i] = memory_.load(box.announcement[i]);
    return theirs;
  }
  const std::byte* payload(std::uint64_t number, int rank) { return memory_.tiny_box(number, rank).payload.data(); }

  /// Marks the oldest unread message as read.
  void finish_read() { ++read_; }

 private:
  Memory& memory_;
  std::uint64_t sent_ = 0;
  std::uint64_t read_ = 0;
};

}  // namespace lockstep::shm

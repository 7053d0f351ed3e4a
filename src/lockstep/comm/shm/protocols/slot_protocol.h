#pragma once

#include <algorithm>
#include <cstdint>

#include "lockstep/comm/shm/memory/control_block.h"

namespace lockstep::shm {

/// The flags of operations on memory that all ranks can access. Every rank enters (its memory is ready), any rank works
/// on chunks, and every rank retires (it no longer reads this operation's flags).
///
/// A rank's slice of the data is cut into chunks. Its own rank takes chunks from the slice's counter, and so does any
/// rank that would otherwise wait, so a busy rank delays no other. Slots are used in turn: an operation may enter only
/// when all ranks have retired the operation that had its slot before.
///
/// `Memory` is Group, or the model checker's. One thread at a time per rank.
template <class Memory>
class SlotProtocol {
 public:
  explicit SlotProtocol(Memory& memory) : memory_(memory) {}

  /// True once all ranks have retired the operation that had the slot before.
  bool may_enter(std::uint64_t sequence) {
    if (sequence < all_retired_ + memory_.slots()) return true;
    all_retired_ = least_retired();
    return sequence < all_retired_ + memory_.slots();
  }
  /// Like `may_enter`, from any thread that waits for it. No rank signals this.
  bool is_slot_free(std::uint64_t sequence) { return sequence < least_retired() + memory_.slots(); }
  bool holds_slot(std::uint64_t sequence, int rank) { return sequence >= retired(rank) + memory_.slots(); }

  /// Shows that this rank's data of the operation is complete, and where it is. Waits if the operation may not enter
  /// yet. Only a rank that has retired all earlier operations may wait here; any other would wait for itself.
  template <class Call>
  void enter(const Call& call, const Location& location) {
    SlotCell& mine = prepare(call, location);
    memory_.publish(mine.arrived, call.sequence + 1, [&] { return all_entered(call.sequence); });
  }
  /// Enters an operation that needs no slot, so that others see it. Wakes no rank.
  template <class Call>
  void announce(const Call& call) {
    SlotCell& mine = prepare(call, {kNowhere, 0});
    memory_.store(mine.arrived, call.sequence + 1);
  }

  bool has_entered(std::uint64_t sequence, int rank) {
    return memory_.load(memory_.slot(sequence, rank).arrived) == sequence + 1;
  }
  bool all_entered(std::uint64_t sequence) {
    for (int rank = 0; rank < memory_.world_size(); ++rank) {
      if (!has_entered(sequence, rank)) return false;
    }
    return true;
  }
  template <class Call>
  void await_entered(const Call& call) {
    memory_.await(
        call, [&] { return all_entered(call.sequence); }, [&](int rank) { return !has_entered(call.sequence, rank); });
  }

  Announcement announcement(std::uint64_t sequence, int rank) {
    Announcement theirs;
    SlotCell& slot = memory_.slot(sequence, rank);
    for (std::size_t i = 0; i < theirs.words.size(); ++i) theirs.words[i] = memory_.load(slot.announcement[i]);
    return theirs;
  }
  Location location(std::uint64_t sequence, int rank) {
    SlotCell& slot = memory_.slot(sequence, rank);
    return {memory_.load(slot.segment), memory_.load(slot.offset)};
  }

  /// Works on chunks of a rank's slice that no rank has taken; true if there were any. All ranks must have entered.
  /// `body(owner, chunk)` touches memory of all ranks.
  template <class Body>
  bool work(std::uint64_t sequence, std::uint64_t chunks_per_slice, int owner, Body&& body) {
    std::uint64_t finished = 0;
    std::uint64_t chunk = 0;
    while (claim(sequence, chunks_per_slice, owner, chunk)) {
      memory_.begin_work();
      body(owner, chunk);
      memory_.end_work();
      ++finished;
    }
    if (finished == 0) return false;
    Word& done = memory_.slot(sequence, memory_.rank()).done;
    const std::uint64_t before = memory_.load(done);
    memory_.publish(done, before + finished, [&] { return all_done(sequence, chunks_per_slice); });
    return true;
  }

  bool all_done(std::uint64_t sequence, std::uint64_t chunks_per_slice) {
    std::uint64_t sum = 0;
    for (int rank = 0; rank < memory_.world_size(); ++rank) sum += memory_.load(memory_.slot(sequence, rank).done);
    return sum == chunks_per_slice * static_cast<std::uint64_t>(memory_.world_size());
  }
  template <class Call>
  void await_done(const Call& call, std::uint64_t chunks_per_slice) {
    memory_.await(
        call, [&] { return all_done(call.sequence, chunks_per_slice); }, [&](int rank) { return is_working(rank); });
  }

  /// True while the rank has taken a chunk, of any operation, that it has not finished.
  bool is_working(int rank) { return memory_.load(memory_.cell(rank).working) != 0; }

  /// This rank has finished the operation and all earlier ones, and no longer reads their slots. Call it for each
  /// operation.
  void retire(std::uint64_t sequence) { memory_.store(memory_.cell(memory_.rank()).retired, sequence + 1); }

 private:
  template <class Call>
  SlotCell& prepare(const Call& call, const Location& location) {
    if (!may_enter(call.sequence)) {
      memory_.await_without_bell(
          call, [&] { return is_slot_free(call.sequence); }, [&](int rank) { return holds_slot(call.sequence, rank); });
    }
    SlotCell& mine = memory_.slot(call.sequence, memory_.rank());
    memory_.store(mine.done, 0);  // `claimed` contains its operation, so its cache line stays where it is
    for (std::size_t i = 0; i < call.announcement.words.size(); ++i) {
      memory_.store(mine.announcement[i], call.announcement.words[i]);
    }
    memory_.store(mine.segment, location.segment);
    memory_.store(mine.offset, location.offset);
    memory_.store(memory_.cell(memory_.rank()).entered, call.sequence + 1);
    return mine;
  }

  bool claim(std::uint64_t sequence, std::uint64_t chunks_per_slice, int owner, std::uint64_t& chunk) {
    Word& claimed = memory_.slot(sequence, owner).claimed;
    const std::uint64_t tag = (sequence + 1) << kChunkBits;
    std::uint64_t current = memory_.load(claimed);
    for (;;) {
      // If the value is left from the operation that had the slot before, no chunk is taken yet.
      chunk = (current >> kChunkBits) == sequence + 1 ? current - tag : 0;
      if (chunk >= chunks_per_slice) return false;
      if (memory_.compare_exchange(claimed, current, tag + chunk + 1)) return true;
    }
  }

  std::uint64_t retired(int rank) { return memory_.load(memory_.cell(rank).retired); }
  std::uint64_t least_retired() {
    std::uint64_t least = retired(0);
    for (int rank = 1; rank < memory_.world_size(); ++rank) least = std::min(least, retired(rank));
    return least;
  }

  Memory& memory_;
  std::uint64_t all_retired_ = 0;  // a lower bound of the operations that every rank has retired
};

}  // namespace lockstep::shm

#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/comm/shm/memory/control_block.h"
#include "lockstep/comm/shm/protocols/channel_cell.h"

namespace lockstep::shm {

/// A rank may be kTinyAhead tiny messages ahead of what it has read. With twice as many boxes, no rank overwrites what
/// a peer still reads.
constexpr std::uint64_t kTinyAhead = 2;
constexpr std::uint64_t kTinyBoxes = 2 * kTinyAhead;
/// Boxes for small messages, which are copied before the rank enters: an operation cannot be entered before all ranks
/// have read the one before.
constexpr std::uint64_t kSmallBoxes = 2;

/// Numbers of the memory that ranks send each other: the control block, channels by sender, allocations in order.
constexpr std::uint64_t kBlockNumber = 0;
constexpr std::uint64_t kFirstChannelNumber = 1;
constexpr std::uint64_t kFirstAllocationNumber = kFirstChannelNumber + kMaxRanks;

/// Sizes and offsets in the control block. They depend only on the number of ranks and the size of the kernel's masks
/// of cores, so they are equal on all ranks.
class Layout {
 public:
  Layout(int world_size, int core_mask_words);

  int world_size() const { return world_size_; }
  int core_mask_words() const { return core_mask_words_; }
  std::size_t total_bytes() const { return total_bytes_; }
  std::size_t small_box_bytes() const { return small_box_bytes_; }
  /// Size of one of a rank's kStagingBuffers staging buffers.
  std::size_t staging_bytes() const { return staging_bytes_; }

  std::size_t cell(int rank) const { return cells_ + index(rank) * sizeof(RankCell); }
  std::size_t core_mask(int rank) const { return core_masks_ + index(rank) * index(core_mask_words_) * sizeof(Word); }
  std::size_t slot(std::uint64_t sequence, int rank) const {
    return slots_ + ((sequence % kSlots) * index(world_size_) + index(rank)) * sizeof(SlotCell);
  }
  std::size_t tiny_box(std::uint64_t number, int rank) const {
    return tiny_boxes_ + (index(rank) * kTinyBoxes + number % kTinyBoxes) * sizeof(TinyBox);
  }
  std::size_t small_box(std::uint64_t number, int rank) const {
    return small_boxes_ + (index(rank) * kSmallBoxes + number % kSmallBoxes) * small_box_bytes_;
  }
  std::size_t staging(int rank, int buffer) const {
    return staging_ + (index(rank) * kStagingBuffers + index(buffer)) * staging_bytes_;
  }
  std::size_t channel(int from, int to) const {
    return channels_ + (index(from) * index(world_size_) + index(to)) * sizeof(ChannelCell);
  }

  /// Two to fill and two for results, used in turn.
  static constexpr int kStagingBuffers = 4;

 private:
  static constexpr std::size_t index(int number) { return static_cast<std::size_t>(number); }

  int world_size_;
  int core_mask_words_;
  std::size_t small_box_bytes_;
  std::size_t staging_bytes_;
  std::size_t cells_;
  std::size_t core_masks_;
  std::size_t slots_;
  std::size_t tiny_boxes_;
  std::size_t small_boxes_;
  std::size_t channels_;
  std::size_t staging_;
  std::size_t total_bytes_;
};

}  // namespace lockstep::shm

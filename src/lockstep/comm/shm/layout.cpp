#include "lockstep/comm/shm/layout.h"

#include <algorithm>

#include "lockstep/comm/shm/channel_cell.h"
#include "lockstep/comm/shm/memory_segment.h"

namespace lockstep::shm {
namespace {

constexpr std::size_t round_up(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

// All ranks' buffers of one kind together stay near `budget`; each has between `least` and `most`.
std::size_t share_of(std::size_t budget, int world_size, std::size_t least, std::size_t most) {
  return round_up(std::clamp(budget / static_cast<std::size_t>(world_size), least, most), 4096);
}

}  // namespace

Layout::Layout(int world_size) : world_size_(world_size) {
  const auto ranks = static_cast<std::size_t>(world_size);
  small_box_bytes_ = share_of(std::size_t{512} << 10, world_size, 16 << 10, 64 << 10);
  staging_bytes_ = share_of(std::size_t{4} << 20, world_size, 64 << 10, 512 << 10);
  std::size_t end = 0;
  const auto place = [&end](std::size_t bytes) {
    const std::size_t begin = end;
    end = whole_pages(end + bytes);
    return begin;
  };
  place(sizeof(GroupHeader));
  cells_ = place(ranks * sizeof(RankCell));
  slots_ = place(kSlots * ranks * sizeof(SlotCell));
  channels_ = place(ranks * ranks * sizeof(ChannelCell));
  tiny_boxes_ = place(kTinyBoxes * ranks * sizeof(TinyBox));
  small_boxes_ = place(kSmallBoxes * ranks * small_box_bytes_);
  staging_ = place(ranks * kStagingBuffers * staging_bytes_);
  total_bytes_ = end;
}

std::size_t Layout::cell(int rank) const { return cells_ + static_cast<std::size_t>(rank) * sizeof(RankCell); }

std::size_t Layout::slot(std::uint64_t sequence, int rank) const {
  const auto row = static_cast<std::size_t>(sequence % kSlots) * static_cast<std::size_t>(world_size_);
  return slots_ + (row + static_cast<std::size_t>(rank)) * sizeof(SlotCell);
}

std::size_t Layout::tiny_box(std::uint64_t number, int rank) const {
  const auto row = static_cast<std::size_t>(rank) * kTinyBoxes;
  return tiny_boxes_ + (row + static_cast<std::size_t>(number % kTinyBoxes)) * sizeof(TinyBox);
}

std::size_t Layout::small_box(std::uint64_t number, int rank) const {
  const auto row = static_cast<std::size_t>(rank) * kSmallBoxes;
  return small_boxes_ + (row + static_cast<std::size_t>(number % kSmallBoxes)) * small_box_bytes_;
}

std::size_t Layout::staging(int rank, int buffer) const {
  return staging_ +
         (static_cast<std::size_t>(rank) * kStagingBuffers + static_cast<std::size_t>(buffer)) * staging_bytes_;
}

std::size_t Layout::channel(int from, int to) const {
  const auto row = static_cast<std::size_t>(from) * static_cast<std::size_t>(world_size_);
  return channels_ + (row + static_cast<std::size_t>(to)) * sizeof(ChannelCell);
}

}  // namespace lockstep::shm

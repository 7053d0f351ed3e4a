#include "lockstep/comm/shm/memory/layout.h"

#include <algorithm>

#include "lockstep/comm/shm/memory/memory_segment.h"

namespace lockstep::shm {
namespace {

constexpr std::size_t round_up(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

// All ranks' buffers of one kind together stay near `budget`; each has between `least` and `most`.
std::size_t share_of(std::size_t budget, int world_size, std::size_t least, std::size_t most) {
  return round_up(std::clamp(budget / static_cast<std::size_t>(world_size), least, most), 4096);
}

}  // namespace

Layout::Layout(int world_size, int core_mask_words) : world_size_(world_size), core_mask_words_(core_mask_words) {
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
  core_masks_ = place(ranks * index(core_mask_words) * sizeof(Word));
  slots_ = place(kSlots * ranks * sizeof(SlotCell));
  channels_ = place(ranks * ranks * sizeof(ChannelCell));
  tiny_boxes_ = place(kTinyBoxes * ranks * sizeof(TinyBox));
  small_boxes_ = place(kSmallBoxes * ranks * small_box_bytes_);
  staging_ = place(ranks * kStagingBuffers * staging_bytes_);
  total_bytes_ = end;
}

}  // namespace lockstep::shm

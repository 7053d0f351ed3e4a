#include "lockstep/comm/mesh/shard_reduction.h"

#include <algorithm>
#include <utility>

#include "lockstep/comm/mesh/message_sizes.h"

namespace lockstep {
namespace {

std::size_t peers_of(const MeshPlace& place) { return static_cast<std::size_t>(place.size - 1); }

const Shard& shard_of(const std::vector<Shard>& all, int rank) { return all[static_cast<std::size_t>(rank)]; }

}  // namespace

std::vector<Shard> shards_of(std::size_t count, int ranks) {
  const auto parts = static_cast<std::size_t>(ranks);
  const std::size_t unit = count >= parts * 64 ? 64 : 1;
  const std::size_t units = (count + unit - 1) / unit;
  const std::size_t each = (units + parts - 1) / parts * unit;
  std::vector<Shard> result;
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t begin = std::min(count, part * each);
    result.push_back({begin, std::min(count, begin + each) - begin});
  }
  return result;
}

ShardReduction::ShardReduction(const MeshPlace& place, std::byte* out, const void* data, std::vector<Shard> all,
                               Reduction reduction)
    : place_(place),
      all_(std::move(all)),
      reduction_(std::move(reduction)),
      out_(out),
      own_(static_cast<const std::byte*>(data) + shard_of(all_, place.rank).offset * reduction_.element_bytes),
      own_bytes_(shard_of(all_, place.rank).count * reduction_.element_bytes),
      segment_(segment_bytes(place.size)),
      room_(std::min(segment_, own_bytes_)),
      window_count_(own_bytes_ > segment_ ? 2 : 1),
      scratch_(place.scratch, window_count_ * peers_of(place) * room_),
      outgoing_(place.mesh, data, (all_.back().offset + all_.back().count) * reduction_.element_bytes) {
  const std::size_t window = peers_of(place_) * room_;
  for (std::size_t i = 0; i < window_count_; ++i) {
    windows_.emplace_back(place_.mesh, scratch_.data() + i * window, window);
  }
  for (std::size_t i = 0; i < window_count_; ++i) post(i);

  const std::size_t longest = all_.front().count * reduction_.element_bytes;
  for_segments(longest, segment_, [&](std::size_t offset, std::size_t) {
    for (int distance = 1; distance < place_.size; ++distance) {
      const Shard& shard = shard_of(all_, place_.after(distance));
      const std::size_t bytes = shard.count * reduction_.element_bytes;
      if (offset >= bytes) continue;
      outgoing_.send(place_.after(distance), place_.slot_of_step(0), shard.offset * reduction_.element_bytes + offset,
                     std::min(segment_, bytes - offset));
    }
  });
}

void ShardReduction::post(std::size_t index) {
  if (index * segment_ >= own_bytes_) return;
  const std::size_t length = std::min(segment_, own_bytes_ - index * segment_);
  for (int distance = 1; distance < place_.size; ++distance) {
    windows_[index % window_count_].recv(place_.after(distance), place_.slot_of_step(0),
                                         static_cast<std::size_t>(distance - 1) * room_, length);
  }
}

void ShardReduction::finish(const SegmentReady& ready) {
  std::vector<const std::byte*> values(static_cast<std::size_t>(place_.size));
  for_segments(own_bytes_, segment_, [&](std::size_t offset, std::size_t length) {
    const std::size_t index = offset / segment_;
    const std::size_t window = index % window_count_;
    windows_[window].wait_received(place_.size - 1);
    values[static_cast<std::size_t>(place_.rank)] = own_ + offset;
    for (int distance = 1; distance < place_.size; ++distance) {
      values[static_cast<std::size_t>(place_.after(distance))] =
          scratch_.data() + (window * peers_of(place_) + static_cast<std::size_t>(distance - 1)) * room_;
    }
    reduction_.combine(out_ + offset, values, length / reduction_.element_bytes);
    if (ready) ready(offset, length);
    post(index + window_count_);
  });
  outgoing_.wait_all();
}

}  // namespace lockstep

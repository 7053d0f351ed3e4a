#include "lockstep/comm/gloo/collectives.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace lockstep {
namespace {

// Up to this size per rank, every rank sends all it has to every other: one message of latency instead of two.
constexpr std::size_t kSmallBytes = 256 << 10;
// Up to this size a broadcast goes down a tree.
constexpr std::size_t kTreeBytes = 64 << 10;
// Messages of a large reduction: while one is reduced the next is under way. Smaller ones cost wake-ups, larger ones
// fall out of the cache between arrival and reduction.
constexpr std::size_t kLargestSegment = 2 << 20;
constexpr std::size_t kSmallestSegment = 256 << 10;

std::size_t segment_bytes(int size, std::size_t element_bytes) {
  const std::size_t fair = (std::size_t{4} << 20) / static_cast<std::size_t>(std::max(1, size - 1));
  const std::size_t bytes = std::clamp(fair, kSmallestSegment, kLargestSegment);
  return bytes / element_bytes * element_bytes;
}

// A buffer that counts what is under way in it.
class Traffic {
 public:
  Traffic(Mesh& mesh, const void* data, std::size_t bytes, Deadline deadline)
      : buffer_(mesh.buffer(const_cast<void*>(data), bytes)), deadline_(deadline) {}

  void send(int to, std::uint64_t slot, std::size_t offset, std::size_t bytes) {
    buffer_->send(to, slot, offset, bytes);
    ++sends_;
  }
  void recv(int from, std::uint64_t slot, std::size_t offset, std::size_t bytes) {
    buffer_->recv(from, slot, offset, bytes);
    ++receives_;
  }
  void wait_received(int count) {
    for (; count > 0; --count, --receives_) buffer_->wait_received(deadline_);
  }
  void wait_sent(int count) {
    for (; count > 0; --count, --sends_) buffer_->wait_sent(deadline_);
  }
  void wait_all() {
    wait_received(receives_);
    wait_sent(sends_);
  }

 private:
  std::unique_ptr<MeshBuffer> buffer_;
  Deadline deadline_;
  int sends_ = 0;
  int receives_ = 0;
};

// Calls `each(offset, length)` for the segments of [0, bytes).
template <typename Each>
void for_segments(std::size_t bytes, std::size_t segment, const Each& each) {
  for (std::size_t offset = 0; offset < bytes; offset += segment) each(offset, std::min(segment, bytes - offset));
}

void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memmove(to, from, bytes);
}

}  // namespace

char* MeshCollectives::scratch(std::size_t bytes) {
  if (scratch_.size() < bytes) scratch_.resize(bytes);
  return scratch_.data();
}

std::vector<MeshCollectives::Shard> MeshCollectives::shards(std::size_t count) const {
  const auto parts = static_cast<std::size_t>(size_);
  // Whole cache lines where there are enough elements.
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

void MeshCollectives::all_reduce(void* data, std::size_t count, const Reduction& reduction) {
  const std::size_t element = reduction.element_bytes;
  const std::size_t bytes = count * element;
  if (bytes * static_cast<std::size_t>(size_ - 1) <= kSmallBytes) return all_reduce_small(data, count, reduction);

  const std::vector<Shard> all = shards(count);
  const std::size_t segment = segment_bytes(size_, element);
  Traffic results(mesh_, data, bytes, deadline_);
  // Posted before anything is sent, so that results need not wait for a receiver. A rank sends the result of a segment
  // only after it has all of our values of it, so the memory is free by then.
  for (int distance = 1; distance < size_; ++distance) {
    const int peer = after(distance);
    const Shard shard = all[static_cast<std::size_t>(peer)];
    for_segments(shard.count * element, segment, [&](std::size_t offset, std::size_t length) {
      results.recv(peer, slot(1), shard.offset * element + offset, length);
    });
  }
  const std::size_t own = all[static_cast<std::size_t>(rank_)].offset * element;
  reduce_shards(static_cast<char*>(data) + own, data, all, reduction, [&](std::size_t offset, std::size_t length) {
    for (int distance = 1; distance < size_; ++distance) {
      results.send(after(distance), slot(1), own + offset, length);
    }
  });
  results.wait_all();
}

void MeshCollectives::all_reduce_small(void* data, std::size_t count, const Reduction& reduction) {
  const std::size_t bytes = count * reduction.element_bytes;
  char* others = scratch(bytes * static_cast<std::size_t>(size_ - 1));
  Traffic incoming(mesh_, others, bytes * static_cast<std::size_t>(size_ - 1), deadline_);
  Traffic outgoing(mesh_, data, bytes, deadline_);
  std::vector<const void*> values(static_cast<std::size_t>(size_), data);
  for (int distance = 1; distance < size_; ++distance) {
    const std::size_t place = static_cast<std::size_t>(distance - 1) * bytes;
    incoming.recv(after(distance), slot(0), place, bytes);
    values[static_cast<std::size_t>(after(distance))] = others + place;
  }
  for (int distance = 1; distance < size_; ++distance) outgoing.send(after(distance), slot(0), 0, bytes);
  incoming.wait_all();
  outgoing.wait_all();
  reduction.combine(data, values, count);
}

void MeshCollectives::reduce_shards(char* out, const void* data, const std::vector<Shard>& all,
                                    const Reduction& reduction, const SegmentReady& ready) {
  const std::size_t element = reduction.element_bytes;
  const std::size_t segment = segment_bytes(size_, element);
  const std::size_t peers = static_cast<std::size_t>(size_ - 1);
  const std::size_t own_offset = all[static_cast<std::size_t>(rank_)].offset * element;
  const std::size_t own_bytes = all[static_cast<std::size_t>(rank_)].count * element;
  const std::size_t room = std::min(segment, own_bytes);

  // Two windows of one segment from each rank. One buffer per window: its count of receives then is that of the window.
  char* base = scratch(2 * peers * room);
  Traffic windows[2] = {Traffic(mesh_, base, peers * room, deadline_),
                        Traffic(mesh_, base + peers * room, peers * room, deadline_)};
  const auto post = [&](std::size_t index) {
    if (index * segment >= own_bytes) return;
    const std::size_t length = std::min(segment, own_bytes - index * segment);
    for (int distance = 1; distance < size_; ++distance) {
      windows[index % 2].recv(after(distance), slot(0), static_cast<std::size_t>(distance - 1) * room, length);
    }
  };
  post(0);
  post(1);

  Traffic outgoing(mesh_, data, (all.back().offset + all.back().count) * element, deadline_);
  const std::size_t longest = all.front().count * element;
  for_segments(longest, segment, [&](std::size_t offset, std::size_t) {
    for (int distance = 1; distance < size_; ++distance) {
      const Shard shard = all[static_cast<std::size_t>(after(distance))];
      const std::size_t bytes = shard.count * element;
      if (offset >= bytes) continue;
      outgoing.send(after(distance), slot(0), shard.offset * element + offset, std::min(segment, bytes - offset));
    }
  });

  std::vector<const void*> values(static_cast<std::size_t>(size_));
  for_segments(own_bytes, segment, [&](std::size_t offset, std::size_t length) {
    const std::size_t index = offset / segment;
    windows[index % 2].wait_received(size_ - 1);
    values[static_cast<std::size_t>(rank_)] = static_cast<const char*>(data) + own_offset + offset;
    for (int distance = 1; distance < size_; ++distance) {
      values[static_cast<std::size_t>(after(distance))] =
          base + (index % 2 * peers + static_cast<std::size_t>(distance - 1)) * room;
    }
    reduction.combine(out + offset, values, length / element);
    if (ready) ready(offset, length);
    post(index + 2);
  });
  outgoing.wait_all();
}

void MeshCollectives::reduce_scatter(void* out, const void* in, std::size_t count, const Reduction& reduction) {
  std::vector<Shard> all;
  for (int rank = 0; rank < size_; ++rank) all.push_back({static_cast<std::size_t>(rank) * count, count});
  reduce_shards(static_cast<char*>(out), in, all, reduction, nullptr);
}

void MeshCollectives::reduce(void* data, std::size_t count, int root, const Reduction& reduction) {
  const std::size_t element = reduction.element_bytes;
  const std::size_t bytes = count * element;
  if (bytes * static_cast<std::size_t>(size_ - 1) <= kSmallBytes) return reduce_small(data, count, root, reduction);

  const std::vector<Shard> all = shards(count);
  const std::size_t segment = segment_bytes(size_, element);
  Traffic results(mesh_, data, bytes, deadline_);
  for (int peer = 0; rank_ == root && peer < size_; ++peer) {
    if (peer == root) continue;
    const Shard shard = all[static_cast<std::size_t>(peer)];
    for_segments(shard.count * element, segment, [&](std::size_t offset, std::size_t length) {
      results.recv(peer, slot(1), shard.offset * element + offset, length);
    });
  }
  const std::size_t own = all[static_cast<std::size_t>(rank_)].offset * element;
  reduce_shards(static_cast<char*>(data) + own, data, all, reduction, [&](std::size_t offset, std::size_t length) {
    if (rank_ != root) results.send(root, slot(1), own + offset, length);
  });
  results.wait_all();
}

void MeshCollectives::reduce_small(void* data, std::size_t count, int root, const Reduction& reduction) {
  const std::size_t bytes = count * reduction.element_bytes;
  if (rank_ != root) {
    Traffic outgoing(mesh_, data, bytes, deadline_);
    outgoing.send(root, slot(0), 0, bytes);
    outgoing.wait_all();
    return;
  }
  char* others = scratch(bytes * static_cast<std::size_t>(size_ - 1));
  Traffic incoming(mesh_, others, bytes * static_cast<std::size_t>(size_ - 1), deadline_);
  std::vector<const void*> values(static_cast<std::size_t>(size_), data);
  for (int distance = 1; distance < size_; ++distance) {
    const std::size_t place = static_cast<std::size_t>(distance - 1) * bytes;
    incoming.recv(after(distance), slot(0), place, bytes);
    values[static_cast<std::size_t>(after(distance))] = others + place;
  }
  incoming.wait_all();
  reduction.combine(data, values, count);
}

void MeshCollectives::broadcast(void* data, std::size_t bytes, int root) {
  if (size_ == 2 || bytes <= kTreeBytes) return broadcast_tree(data, bytes, root);

  // The root sends each rank a shard, and the ranks pass them on to each other: the root sends everything twice, not
  // once per rank.
  const std::vector<Shard> all = shards(bytes);
  const std::size_t segment = segment_bytes(size_, 1);
  Traffic traffic(mesh_, data, bytes, deadline_);
  const auto for_shard = [&](int rank, const auto& each) {
    const Shard shard = all[static_cast<std::size_t>(rank)];
    for_segments(shard.count, segment,
                 [&](std::size_t offset, std::size_t length) { each(shard.offset + offset, length); });
  };
  if (rank_ == root) {
    for (int distance = 1; distance < size_; ++distance) {
      const int peer = after(distance);
      for_shard(peer, [&](std::size_t offset, std::size_t length) { traffic.send(peer, slot(0), offset, length); });
      for_shard(root, [&](std::size_t offset, std::size_t length) { traffic.send(peer, slot(1), offset, length); });
    }
    traffic.wait_all();
    return;
  }
  Traffic own(mesh_, data, bytes, deadline_);
  for_shard(rank_, [&](std::size_t offset, std::size_t length) { own.recv(root, slot(0), offset, length); });
  for (int distance = 1; distance < size_; ++distance) {
    const int peer = after(distance);
    for_shard(peer, [&](std::size_t offset, std::size_t length) { traffic.recv(peer, slot(1), offset, length); });
  }
  for_shard(rank_, [&](std::size_t offset, std::size_t length) {
    own.wait_received(1);
    for (int distance = 1; distance < size_; ++distance) {
      if (after(distance) != root) traffic.send(after(distance), slot(1), offset, length);
    }
  });
  traffic.wait_all();
}

void MeshCollectives::broadcast_tree(void* data, std::size_t bytes, int root) {
  // A binomial tree over ranks counted from the root: the parent is this number without its highest bit.
  const int number = (rank_ - root + size_) % size_;
  Traffic traffic(mesh_, data, bytes, deadline_);
  int bit = 1;
  while (bit <= number) bit *= 2;
  if (number > 0) {
    traffic.recv((number - bit / 2 + root) % size_, slot(0), 0, bytes);
    traffic.wait_all();
  }
  for (; number + bit < size_; bit *= 2) traffic.send((number + bit + root) % size_, slot(0), 0, bytes);
  traffic.wait_all();
}

void MeshCollectives::all_gather(void* out, const void* in, std::size_t bytes) {
  Traffic incoming(mesh_, out, bytes * static_cast<std::size_t>(size_), deadline_);
  Traffic outgoing(mesh_, in, bytes, deadline_);
  for (int distance = 1; distance < size_; ++distance) {
    incoming.recv(after(distance), slot(0), static_cast<std::size_t>(after(distance)) * bytes, bytes);
  }
  for (int distance = 1; distance < size_; ++distance) outgoing.send(after(distance), slot(0), 0, bytes);
  copy(static_cast<char*>(out) + static_cast<std::size_t>(rank_) * bytes, in, bytes);
  incoming.wait_all();
  outgoing.wait_all();
}

void MeshCollectives::gather(void* out, const void* in, std::size_t bytes, int root) {
  if (rank_ != root) {
    Traffic outgoing(mesh_, in, bytes, deadline_);
    outgoing.send(root, slot(0), 0, bytes);
    outgoing.wait_all();
    return;
  }
  Traffic incoming(mesh_, out, bytes * static_cast<std::size_t>(size_), deadline_);
  for (int distance = 1; distance < size_; ++distance) {
    incoming.recv(after(distance), slot(0), static_cast<std::size_t>(after(distance)) * bytes, bytes);
  }
  copy(static_cast<char*>(out) + static_cast<std::size_t>(rank_) * bytes, in, bytes);
  incoming.wait_all();
}

void MeshCollectives::scatter(void* out, const void* in, std::size_t bytes, int root) {
  if (rank_ != root) {
    Traffic incoming(mesh_, out, bytes, deadline_);
    incoming.recv(root, slot(0), 0, bytes);
    incoming.wait_all();
    return;
  }
  Traffic outgoing(mesh_, in, bytes * static_cast<std::size_t>(size_), deadline_);
  for (int distance = 1; distance < size_; ++distance) {
    outgoing.send(after(distance), slot(0), static_cast<std::size_t>(after(distance)) * bytes, bytes);
  }
  copy(out, static_cast<const char*>(in) + static_cast<std::size_t>(rank_) * bytes, bytes);
  outgoing.wait_all();
}

void MeshCollectives::all_to_all(void* out, const void* in, std::size_t bytes) {
  Traffic incoming(mesh_, out, bytes * static_cast<std::size_t>(size_), deadline_);
  Traffic outgoing(mesh_, in, bytes * static_cast<std::size_t>(size_), deadline_);
  for (int distance = 1; distance < size_; ++distance) {
    incoming.recv(after(distance), slot(0), static_cast<std::size_t>(after(distance)) * bytes, bytes);
  }
  for (int distance = 1; distance < size_; ++distance) {
    outgoing.send(after(distance), slot(0), static_cast<std::size_t>(after(distance)) * bytes, bytes);
  }
  const std::size_t own = static_cast<std::size_t>(rank_) * bytes;
  copy(static_cast<char*>(out) + own, static_cast<const char*>(in) + own, bytes);
  incoming.wait_all();
  outgoing.wait_all();
}

void MeshCollectives::barrier() {
  // Dissemination: after round k a rank has heard, through others, of the 2^k ranks before it.
  Traffic traffic(mesh_, nullptr, 0, deadline_);
  int round = 0;
  for (int distance = 1; distance < size_; distance *= 2, ++round) {
    traffic.recv((rank_ - distance + size_) % size_, slot(round), 0, 0);
    traffic.send(after(distance), slot(round), 0, 0);
    traffic.wait_all();
  }
}

}  // namespace lockstep

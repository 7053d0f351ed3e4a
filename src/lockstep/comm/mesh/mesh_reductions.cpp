// The parts of MeshCollectives that reduce.
#include "lockstep/comm/mesh/collectives.h"

#include <algorithm>

#include "lockstep/comm/mesh/traffic.h"

namespace lockstep {
void MeshCollectives::all_reduce(void* data, std::size_t count, const Reduction& reduction) {
  const std::size_t element = reduction.element_bytes;
  const std::size_t bytes = count * element;
  if (small(bytes)) return all_reduce_small(data, count, reduction);

  const std::vector<Shard> all = shards(count);
  const std::size_t piece = segment();
  Traffic results(mesh_, data, bytes);
  // Posted before anything is sent, so that results need not wait for a receiver. A rank sends the result of a piece
  // only after it has all of our values of it, so the memory is free by then.
  for (int distance = 1; distance < size_; ++distance) {
    const int peer = after(distance);
    const Shard shard = all[static_cast<std::size_t>(peer)];
    for_segments(shard.count * element, piece, [&](std::size_t offset, std::size_t length) {
      results.recv(peer, slot(1), shard.offset * element + offset, length);
    });
  }
  const std::size_t own = all[static_cast<std::size_t>(rank_)].offset * element;
  reduce_shards(static_cast<std::byte*>(data) + own, data, all, reduction, [&](std::size_t offset, std::size_t length) {
    for (int distance = 1; distance < size_; ++distance) {
      results.send(after(distance), slot(1), own + offset, length);
    }
  });
  results.wait_all();
}

void MeshCollectives::all_reduce_small(void* data, std::size_t count, const Reduction& reduction) {
  for (int distance = 1; distance < size_; ++distance) {
    send_small(after(distance), data, count * reduction.element_bytes);
  }
  combine_packets(data, count, reduction);
}

void MeshCollectives::reduce_shards(std::byte* out, const void* data, const std::vector<Shard>& all,
                                    const Reduction& reduction, const SegmentReady& ready) {
  const std::size_t element = reduction.element_bytes;
  const std::size_t piece = segment();
  const std::size_t peers = static_cast<std::size_t>(size_ - 1);
  const std::size_t own_offset = all[static_cast<std::size_t>(rank_)].offset * element;
  const std::size_t own_bytes = all[static_cast<std::size_t>(rank_)].count * element;
  const std::size_t room = std::min(piece, own_bytes);

  // Two windows of one piece from each rank. One buffer per window: its count of receives then is that of the window.
  std::byte* base = scratch(2 * peers * room);
  Traffic windows[2] = {Traffic(mesh_, base, peers * room), Traffic(mesh_, base + peers * room, peers * room)};
  const auto post = [&](std::size_t index) {
    if (index * piece >= own_bytes) return;
    const std::size_t length = std::min(piece, own_bytes - index * piece);
    for (int distance = 1; distance < size_; ++distance) {
      windows[index % 2].recv(after(distance), slot(0), static_cast<std::size_t>(distance - 1) * room, length);
    }
  };
  post(0);
  post(1);

  Traffic outgoing(mesh_, data, (all.back().offset + all.back().count) * element);
  const std::size_t longest = all.front().count * element;
  for_segments(longest, piece, [&](std::size_t offset, std::size_t) {
    for (int distance = 1; distance < size_; ++distance) {
      const Shard shard = all[static_cast<std::size_t>(after(distance))];
      const std::size_t bytes = shard.count * element;
      if (offset >= bytes) continue;
      outgoing.send(after(distance), slot(0), shard.offset * element + offset, std::min(piece, bytes - offset));
    }
  });

  std::vector<const std::byte*> values(static_cast<std::size_t>(size_));
  for_segments(own_bytes, piece, [&](std::size_t offset, std::size_t length) {
    const std::size_t index = offset / piece;
    windows[index % 2].wait_received(size_ - 1);
    values[static_cast<std::size_t>(rank_)] = static_cast<const std::byte*>(data) + own_offset + offset;
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
  reduce_shards(static_cast<std::byte*>(out), in, all, reduction, nullptr);
}

void MeshCollectives::reduce(void* data, std::size_t count, int root, const Reduction& reduction) {
  const std::size_t element = reduction.element_bytes;
  const std::size_t bytes = count * element;
  if (small(bytes)) return reduce_small(data, count, root, reduction);

  const std::vector<Shard> all = shards(count);
  const std::size_t piece = segment();
  Traffic results(mesh_, data, bytes);
  for (int peer = 0; rank_ == root && peer < size_; ++peer) {
    if (peer == root) continue;
    const Shard shard = all[static_cast<std::size_t>(peer)];
    for_segments(shard.count * element, piece, [&](std::size_t offset, std::size_t length) {
      results.recv(peer, slot(1), shard.offset * element + offset, length);
    });
  }
  const std::size_t own = all[static_cast<std::size_t>(rank_)].offset * element;
  reduce_shards(static_cast<std::byte*>(data) + own, data, all, reduction, [&](std::size_t offset, std::size_t length) {
    if (rank_ != root) results.send(root, slot(1), own + offset, length);
  });
  results.wait_all();
}

void MeshCollectives::reduce_small(void* data, std::size_t count, int root, const Reduction& reduction) {
  const std::size_t element = reduction.element_bytes;
  if (rank_ != root) return send_small(root, data, count * element);
  combine_packets(data, count, reduction);
}

// Reduces what all others sent in packets into `data`.
void MeshCollectives::combine_packets(void* data, std::size_t count, const Reduction& reduction) {
  const std::size_t element = reduction.element_bytes;
  std::vector<const std::byte*> values(static_cast<std::size_t>(size_));
  for_segments(count * element, mesh_.packet_bytes(), [&](std::size_t offset, std::size_t length) {
    std::byte* const piece = static_cast<std::byte*>(data) + offset;
    values[static_cast<std::size_t>(rank_)] = piece;
    for (int distance = 1; distance < size_; ++distance) {
      values[static_cast<std::size_t>(after(distance))] =
          static_cast<const std::byte*>(mesh_.wait_packet(after(distance), slot(0), length));
    }
    reduction.combine(piece, values, length / element);
    for (int distance = 1; distance < size_; ++distance) mesh_.release_packet(after(distance));
  });
}

}  // namespace lockstep

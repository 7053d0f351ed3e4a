// The parts of MeshCollectives that only move data.
#include "lockstep/comm/mesh/collectives.h"

#include <algorithm>
#include <cstring>

#include "lockstep/comm/mesh/message_sizes.h"
#include "lockstep/comm/mesh/traffic.h"

namespace lockstep {
namespace {

void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memmove(to, from, bytes);
}

}  // namespace

bool MeshCollectives::small(std::size_t bytes) const {
  return bytes * static_cast<std::size_t>(size_ - 1) <= kMostPacketBytes &&
         bytes <= mesh_.packets_at_once() * mesh_.packet_bytes();
}

void MeshCollectives::send_small(int to, const void* data, std::size_t bytes) {
  for_segments(bytes, mesh_.packet_bytes(), [&](std::size_t offset, std::size_t length) {
    mesh_.send_packet(to, slot(0), static_cast<const std::byte*>(data) + offset, length);
  });
}

void MeshCollectives::recv_small(int from, void* data, std::size_t bytes) {
  for_segments(bytes, mesh_.packet_bytes(), [&](std::size_t offset, std::size_t length) {
    std::memcpy(static_cast<std::byte*>(data) + offset, mesh_.wait_packet(from, slot(0), length), length);
    mesh_.release_packet(from);
  });
}

std::size_t MeshCollectives::segment() const { return segment_bytes(size_); }

std::byte* MeshCollectives::scratch(std::size_t bytes) {
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

void MeshCollectives::broadcast(void* data, std::size_t bytes, int root) {
  if (small(bytes)) return broadcast_small(data, bytes, root);
  if (size_ == 2) {
    Traffic traffic(mesh_, data, bytes);
    if (rank_ == root) traffic.send(after(1), slot(0), 0, bytes);
    if (rank_ != root) traffic.recv(root, slot(0), 0, bytes);
    return traffic.wait_all();
  }
  broadcast_large(data, bytes, root);
}

void MeshCollectives::broadcast_small(void* data, std::size_t bytes, int root) {
  // A binomial tree over ranks counted from the root: the parent is this number without its highest bit.
  const int number = (rank_ - root + size_) % size_;
  int bit = 1;
  while (bit <= number) bit *= 2;
  if (number > 0) recv_small((number - bit / 2 + root) % size_, data, bytes);
  for (; number + bit < size_; bit *= 2) send_small((number + bit + root) % size_, data, bytes);
}

// The root sends each rank a shard, and the ranks pass them on to each other: the root sends everything twice, not once
// per rank.
void MeshCollectives::broadcast_large(void* data, std::size_t bytes, int root) {
  const std::vector<Shard> all = shards(bytes);
  const std::size_t piece = segment();
  Traffic traffic(mesh_, data, bytes);
  const auto for_shard = [&](int rank, const auto& each) {
    const Shard shard = all[static_cast<std::size_t>(rank)];
    for_segments(shard.count, piece,
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
  Traffic own(mesh_, data, bytes);
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

void MeshCollectives::all_gather(void* out, const void* in, std::size_t bytes) {
  const auto place = [&](int rank) { return static_cast<std::size_t>(rank) * bytes; };
  if (small(bytes)) {
    for (int distance = 1; distance < size_; ++distance) send_small(after(distance), in, bytes);
    copy(static_cast<std::byte*>(out) + place(rank_), in, bytes);
    for (int distance = 1; distance < size_; ++distance) {
      recv_small(after(distance), static_cast<std::byte*>(out) + place(after(distance)), bytes);
    }
    return;
  }
  Traffic incoming(mesh_, out, place(size_));
  Traffic outgoing(mesh_, in, bytes);
  for (int distance = 1; distance < size_; ++distance) {
    incoming.recv(after(distance), slot(0), place(after(distance)), bytes);
  }
  for (int distance = 1; distance < size_; ++distance) outgoing.send(after(distance), slot(0), 0, bytes);
  copy(static_cast<std::byte*>(out) + place(rank_), in, bytes);
  incoming.wait_all();
  outgoing.wait_all();
}

void MeshCollectives::gather(void* out, const void* in, std::size_t bytes, int root) {
  const auto place = [&](int rank) { return static_cast<std::size_t>(rank) * bytes; };
  if (rank_ != root) {
    if (small(bytes)) return send_small(root, in, bytes);
    Traffic outgoing(mesh_, in, bytes);
    outgoing.send(root, slot(0), 0, bytes);
    return outgoing.wait_all();
  }
  copy(static_cast<std::byte*>(out) + place(rank_), in, bytes);
  Traffic incoming(mesh_, out, place(size_));
  for (int distance = 1; distance < size_; ++distance) {
    const int peer = after(distance);
    if (small(bytes)) {
      recv_small(peer, static_cast<std::byte*>(out) + place(peer), bytes);
    } else {
      incoming.recv(peer, slot(0), place(peer), bytes);
    }
  }
  incoming.wait_all();
}

void MeshCollectives::scatter(void* out, const void* in, std::size_t bytes, int root) {
  const auto place = [&](int rank) { return static_cast<std::size_t>(rank) * bytes; };
  if (rank_ != root) {
    if (small(bytes)) return recv_small(root, out, bytes);
    Traffic incoming(mesh_, out, bytes);
    incoming.recv(root, slot(0), 0, bytes);
    return incoming.wait_all();
  }
  Traffic outgoing(mesh_, in, place(size_));
  for (int distance = 1; distance < size_; ++distance) {
    const int peer = after(distance);
    if (small(bytes)) {
      send_small(peer, static_cast<const std::byte*>(in) + place(peer), bytes);
    } else {
      outgoing.send(peer, slot(0), place(peer), bytes);
    }
  }
  copy(out, static_cast<const std::byte*>(in) + place(rank_), bytes);
  outgoing.wait_all();
}

void MeshCollectives::all_to_all(void* out, const void* in, std::size_t bytes) {
  const auto place = [&](int rank) { return static_cast<std::size_t>(rank) * bytes; };
  const std::byte* const from = static_cast<const std::byte*>(in);
  std::byte* const to = static_cast<std::byte*>(out);
  if (small(bytes)) {
    for (int distance = 1; distance < size_; ++distance) {
      send_small(after(distance), from + place(after(distance)), bytes);
    }
    copy(to + place(rank_), from + place(rank_), bytes);
    for (int distance = 1; distance < size_; ++distance) {
      recv_small(after(distance), to + place(after(distance)), bytes);
    }
    return;
  }
  Traffic incoming(mesh_, out, place(size_));
  Traffic outgoing(mesh_, in, place(size_));
  for (int distance = 1; distance < size_; ++distance) {
    incoming.recv(after(distance), slot(0), place(after(distance)), bytes);
  }
  for (int distance = 1; distance < size_; ++distance) {
    outgoing.send(after(distance), slot(0), place(after(distance)), bytes);
  }
  copy(to + place(rank_), from + place(rank_), bytes);
  incoming.wait_all();
  outgoing.wait_all();
}

void MeshCollectives::barrier() {
  // Dissemination: after round k a rank has heard, through others, of the 2^k ranks before it.
  int round = 0;
  for (int distance = 1; distance < size_; distance *= 2, ++round) {
    const int before = (rank_ - distance + size_) % size_;
    mesh_.send_packet(after(distance), slot(round), nullptr, 0);
    mesh_.wait_packet(before, slot(round), 0);
    mesh_.release_packet(before);
  }
}

}  // namespace lockstep

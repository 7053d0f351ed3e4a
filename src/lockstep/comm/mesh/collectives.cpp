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

// Sends a message from each rank to each other.
class Exchange : public PostedCollective {
 public:
  // Receives are posted before anything is sent, so that no send waits for a receiver.
  // @param part_for  returns where in `in` the part for a rank begins
  template <typename PartFor>
  Exchange(const MeshPlace& place, void* out, const void* in, std::size_t in_bytes, std::size_t bytes,
           const PartFor& part_for)
      : incoming_(place.mesh, out, bytes * static_cast<std::size_t>(place.size)),
        outgoing_(place.mesh, in, in_bytes),
        own_out_(static_cast<std::byte*>(out) + static_cast<std::size_t>(place.rank) * bytes),
        own_in_(static_cast<const std::byte*>(in) + part_for(place.rank)),
        bytes_(bytes) {
    for (int distance = 1; distance < place.size; ++distance) {
      const int peer = place.after(distance);
      incoming_.recv(peer, place.slot_of_step(0), static_cast<std::size_t>(peer) * bytes, bytes);
    }
    for (int distance = 1; distance < place.size; ++distance) {
      const int peer = place.after(distance);
      outgoing_.send(peer, place.slot_of_step(0), part_for(peer), bytes);
    }
  }

  void finish() override {
    copy(own_out_, own_in_, bytes_);
    incoming_.wait_all();
    outgoing_.wait_all();
  }

 private:
  Traffic incoming_;
  Traffic outgoing_;
  std::byte* const own_out_;
  const std::byte* const own_in_;
  const std::size_t bytes_;
};

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
  // A binomial tree over ranks counted from the root: the parent's number is this number without its highest bit.
  const int number = (rank_ - root + size_) % size_;
  int bit = 1;
  while (bit <= number) bit *= 2;
  if (number > 0) recv_small((number - bit / 2 + root) % size_, data, bytes);
  for (; number + bit < size_; bit *= 2) send_small((number + bit + root) % size_, data, bytes);
}

// The root sends each rank a shard, and the ranks forward the shards to each other. So the root sends everything twice,
// not once per rank.
void MeshCollectives::broadcast_large(void* data, std::size_t bytes, int root) {
  const std::vector<Shard> all = shards_of(bytes, size_);
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

std::unique_ptr<PostedCollective> MeshCollectives::post_all_gather(std::uint64_t slot, void* out, const void* in,
                                                                   std::size_t bytes) {
  if (small(bytes)) return nullptr;
  return std::make_unique<Exchange>(place(slot), out, in, bytes, bytes, [](int) { return std::size_t{0}; });
}

void MeshCollectives::all_gather(void* out, const void* in, std::size_t bytes) {
  if (const auto large = post_all_gather(slot_, out, in, bytes)) return large->finish();
  const auto part = [&](int rank) { return static_cast<std::byte*>(out) + static_cast<std::size_t>(rank) * bytes; };
  for (int distance = 1; distance < size_; ++distance) send_small(after(distance), in, bytes);
  copy(part(rank_), in, bytes);
  for (int distance = 1; distance < size_; ++distance) recv_small(after(distance), part(after(distance)), bytes);
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

std::unique_ptr<PostedCollective> MeshCollectives::post_all_to_all(std::uint64_t slot, void* out, const void* in,
                                                                   std::size_t bytes) {
  if (small(bytes)) return nullptr;
  return std::make_unique<Exchange>(place(slot), out, in, bytes * static_cast<std::size_t>(size_), bytes,
                                    [bytes](int rank) { return static_cast<std::size_t>(rank) * bytes; });
}

void MeshCollectives::all_to_all(void* out, const void* in, std::size_t bytes) {
  if (const auto large = post_all_to_all(slot_, out, in, bytes)) return large->finish();
  const auto offset = [&](int rank) { return static_cast<std::size_t>(rank) * bytes; };
  const std::byte* const from = static_cast<const std::byte*>(in);
  std::byte* const to = static_cast<std::byte*>(out);
  for (int distance = 1; distance < size_; ++distance) {
    send_small(after(distance), from + offset(after(distance)), bytes);
  }
  copy(to + offset(rank_), from + offset(rank_), bytes);
  for (int distance = 1; distance < size_; ++distance) {
    recv_small(after(distance), to + offset(after(distance)), bytes);
  }
}

void MeshCollectives::barrier() {
  // Dissemination: after round k a rank knows, through others, that the 2^k ranks before it have arrived.
  int round = 0;
  for (int distance = 1; distance < size_; distance *= 2, ++round) {
    const int before = (rank_ - distance + size_) % size_;
    mesh_.send_packet(after(distance), slot(round), nullptr, 0);
    mesh_.wait_packet(before, slot(round), 0);
    mesh_.release_packet(before);
  }
}

}  // namespace lockstep

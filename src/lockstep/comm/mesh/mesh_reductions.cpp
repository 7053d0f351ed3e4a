// The parts of MeshCollectives that reduce.
#include "lockstep/comm/mesh/collectives.h"

#include <optional>
#include <vector>

#include "lockstep/comm/mesh/message_sizes.h"
#include "lockstep/comm/mesh/traffic.h"

namespace lockstep {
namespace {

class LargeAllReduce : public PostedCollective {
 public:
  LargeAllReduce(const MeshPlace& place, void* data, std::size_t count, const Reduction& reduction)
      : place_(place),
        shards_(shards_of(count, place.size)),
        own_offset_(shards_[static_cast<std::size_t>(place.rank)].offset * reduction.element_bytes),
        results_(place.mesh, data, count * reduction.element_bytes) {
    // Posted before anything is sent, so that results need not wait for a receiver. A rank sends the result of a piece
    // only after it has all of this rank's values of that piece, so the memory is free by then.
    for (int distance = 1; distance < place_.size; ++distance) {
      const int peer = place_.after(distance);
      const Shard& shard = shards_[static_cast<std::size_t>(peer)];
      for_segments(shard.count * reduction.element_bytes, segment_bytes(place_.size),
                   [&](std::size_t offset, std::size_t length) {
                     results_.recv(peer, place_.slot_of_step(1), shard.offset * reduction.element_bytes + offset,
                                   length);
                   });
    }
    sums_.emplace(place_, static_cast<std::byte*>(data) + own_offset_, data, shards_, reduction);
  }

  void finish() override {
    sums_->finish([&](std::size_t offset, std::size_t length) {
      for (int distance = 1; distance < place_.size; ++distance) {
        results_.send(place_.after(distance), place_.slot_of_step(1), own_offset_ + offset, length);
      }
    });
    results_.wait_all();
  }

 private:
  const MeshPlace place_;
  const std::vector<Shard> shards_;
  const std::size_t own_offset_;  // in bytes
  Traffic results_;
  std::optional<ShardReduction> sums_;
};

class LargeReduceScatter : public PostedCollective {
 public:
  LargeReduceScatter(const MeshPlace& place, void* out, const void* in, std::size_t count, const Reduction& reduction)
      : sums_(place, static_cast<std::byte*>(out), in, equal_shards(place.size, count), reduction) {}
  void finish() override { sums_.finish(nullptr); }

 private:
  static std::vector<Shard> equal_shards(int ranks, std::size_t count) {
    std::vector<Shard> all;
    for (int rank = 0; rank < ranks; ++rank) all.push_back({static_cast<std::size_t>(rank) * count, count});
    return all;
  }
  ShardReduction sums_;
};

}  // namespace

std::unique_ptr<PostedCollective> MeshCollectives::post_all_reduce(std::uint64_t slot, void* data, std::size_t count,
                                                                   const Reduction& reduction) {
  if (small(count * reduction.element_bytes)) return nullptr;
  return std::make_unique<LargeAllReduce>(place(slot), data, count, reduction);
}

void MeshCollectives::all_reduce(void* data, std::size_t count, const Reduction& reduction) {
  if (const auto large = post_all_reduce(slot_, data, count, reduction)) return large->finish();
  all_reduce_small(data, count, reduction);
}

void MeshCollectives::all_reduce_small(void* data, std::size_t count, const Reduction& reduction) {
  for (int distance = 1; distance < size_; ++distance) {
    send_small(after(distance), data, count * reduction.element_bytes);
  }
  combine_packets(data, count, reduction);
}

std::unique_ptr<PostedCollective> MeshCollectives::post_reduce_scatter(std::uint64_t slot, void* out, const void* in,
                                                                       std::size_t count, const Reduction& reduction) {
  return std::make_unique<LargeReduceScatter>(place(slot), out, in, count, reduction);
}

void MeshCollectives::reduce_scatter(void* out, const void* in, std::size_t count, const Reduction& reduction) {
  post_reduce_scatter(slot_, out, in, count, reduction)->finish();
}

void MeshCollectives::reduce(void* data, std::size_t count, int root, const Reduction& reduction) {
  const std::size_t element = reduction.element_bytes;
  const std::size_t bytes = count * element;
  if (small(bytes)) return reduce_small(data, count, root, reduction);

  const std::vector<Shard> all = shards_of(count, size_);
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
  ShardReduction sums(place(slot_), static_cast<std::byte*>(data) + own, data, all, reduction);
  sums.finish([&](std::size_t offset, std::size_t length) {
    if (rank_ != root) results.send(root, slot(1), own + offset, length);
  });
  results.wait_all();
}

void MeshCollectives::reduce_small(void* data, std::size_t count, int root, const Reduction& reduction) {
  const std::size_t element = reduction.element_bytes;
  if (rank_ != root) return send_small(root, data, count * element);
  combine_packets(data, count, reduction);
}

// Reduces what all other ranks sent in packets into `data`.
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

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/comm/mesh/mesh.h"

namespace lockstep {

/// How the values of all ranks become one: `combine(out, in, count)` reduces one array of each rank, by rank, into
/// `out`, which may be one of them.
struct Reduction {
  std::size_t element_bytes = 1;
  std::function<void(std::byte* out, const std::vector<const std::byte*>& in, std::size_t count)> combine;
};

/// Collectives over a mesh of connections, on contiguous memory. Gloo's own collectives are not used: a wait inside
/// them cannot be woken when a connection ends half way through a message, they accumulate fp16 in fp16, and they take
/// a handshake per phase, which is most of the time of a small all-reduce.
///
/// Large reductions are direct: rank r receives everybody's shard r, reduces, and sends the result to everybody. That
/// is two messages of latency at any number of ranks, no byte more than a ring, and always reduction in rank order, so
/// that the bits do not depend on the algorithm chosen. Small ones send everything to everybody and reduce everywhere.
///
/// One object serves one operation at a time. All methods throw MeshError.
class MeshCollectives {
 public:
  MeshCollectives(Mesh& mesh, int rank, int size) : mesh_(mesh), rank_(rank), size_(size) {}

  /// What the next operation's messages are marked with. The low byte is zero.
  void begin(std::uint64_t slot) { slot_ = slot; }

  void all_reduce(void* data, std::size_t count, const Reduction& reduction);
  void broadcast(void* data, std::size_t bytes, int root);
  void reduce(void* data, std::size_t count, int root, const Reduction& reduction);
  /// Sizes are those of one rank's share from here on.
  void all_gather(void* out, const void* in, std::size_t bytes);
  void reduce_scatter(void* out, const void* in, std::size_t count, const Reduction& reduction);
  void gather(void* out, const void* in, std::size_t bytes, int root);
  void scatter(void* out, const void* in, std::size_t bytes, int root);
  void all_to_all(void* out, const void* in, std::size_t bytes);
  void barrier();

 private:
  struct Shard {
    std::size_t offset;  // in elements
    std::size_t count;
  };
  using SegmentReady = std::function<void(std::size_t offset, std::size_t bytes)>;

  int after(int distance) const { return (rank_ + distance) % size_; }
  std::uint64_t slot(int step) const { return slot_ + static_cast<std::uint64_t>(step); }
  std::byte* scratch(std::size_t bytes);
  std::size_t segment() const;  ///< bytes, a multiple of 64
  /// Whether each rank may send this much to each other in packets.
  bool small(std::size_t bytes) const;
  void send_small(int to, const void* data, std::size_t bytes);
  void recv_small(int from, void* data, std::size_t bytes);
  std::vector<Shard> shards(std::size_t count) const;  // by rank; the first is the longest

  void all_reduce_small(void* data, std::size_t count, const Reduction& reduction);
  void reduce_small(void* data, std::size_t count, int root, const Reduction& reduction);
  void combine_packets(void* data, std::size_t count, const Reduction& reduction);
  void broadcast_small(void* data, std::size_t bytes, int root);
  void broadcast_large(void* data, std::size_t bytes, int root);
  /// Reduces this rank's shard of all ranks' `data` into `out`, segment by segment; `ready` follows each segment, with
  /// its place in the shard.
  void reduce_shards(std::byte* out, const void* data, const std::vector<Shard>& all, const Reduction& reduction,
                     const SegmentReady& ready);

  Mesh& mesh_;
  const int rank_;
  const int size_;
  std::uint64_t slot_ = 0;
  std::vector<std::byte> scratch_;  // kept between operations: fresh pages cost more than the reduction
};

}  // namespace lockstep

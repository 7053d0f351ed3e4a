#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "lockstep/comm/mesh/begun_operation.h"
#include "lockstep/comm/mesh/mesh.h"
#include "lockstep/comm/mesh/scratch_memory.h"
#include "lockstep/comm/mesh/shard_reduction.h"

namespace lockstep {

/// Collectives over a mesh of connections, on contiguous memory. Gloo's own collectives are not used: a wait inside
/// them cannot be woken when a connection ends half way through a message, they accumulate fp16 in fp16, and they take
/// a handshake per phase, which is most of the time of a small all-reduce.
///
/// Large reductions are direct: rank r receives everybody's shard r, reduces, and sends the result to everybody. That
/// is two messages of latency at any number of ranks, no byte more than a ring, and always reduction in rank order, so
/// that the bits do not depend on the algorithm chosen. Small ones send everything to everybody and reduce everywhere.
///
/// One object serves one operation at a time, beside any number of begun ones. All methods throw MeshError.
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

  /// The same, begun: the first messages, marked with `slot`, are posted, and `finish` does the rest. Null where the
  /// operation is small: its packets must go in its turn. From any thread, beside an operation and each other.
  std::unique_ptr<BegunOperation> begin_all_reduce(std::uint64_t slot, void* data, std::size_t count,
                                                   const Reduction& reduction);
  std::unique_ptr<BegunOperation> begin_reduce_scatter(std::uint64_t slot, void* out, const void* in, std::size_t count,
                                                       const Reduction& reduction);
  std::unique_ptr<BegunOperation> begin_all_gather(std::uint64_t slot, void* out, const void* in, std::size_t bytes);
  std::unique_ptr<BegunOperation> begin_all_to_all(std::uint64_t slot, void* out, const void* in, std::size_t bytes);

 private:
  int after(int distance) const { return (rank_ + distance) % size_; }
  std::uint64_t slot(int step) const { return slot_ + static_cast<std::uint64_t>(step); }
  MeshPlace place(std::uint64_t slot) { return {mesh_, scratch_, rank_, size_, slot}; }
  std::size_t segment() const;  ///< bytes, a multiple of 64
  /// Whether each rank may send this much to each other in packets.
  bool small(std::size_t bytes) const;
  void send_small(int to, const void* data, std::size_t bytes);
  void recv_small(int from, void* data, std::size_t bytes);

  void all_reduce_small(void* data, std::size_t count, const Reduction& reduction);
  void reduce_small(void* data, std::size_t count, int root, const Reduction& reduction);
  void combine_packets(void* data, std::size_t count, const Reduction& reduction);
  void broadcast_small(void* data, std::size_t bytes, int root);
  void broadcast_large(void* data, std::size_t bytes, int root);

  Mesh& mesh_;
  const int rank_;
  const int size_;
  std::uint64_t slot_ = 0;
  ScratchMemory scratch_;
};

}  // namespace lockstep

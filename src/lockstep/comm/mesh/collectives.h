#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "lockstep/comm/mesh/mesh.h"
#include "lockstep/comm/mesh/posted_collective.h"
#include "lockstep/comm/mesh/scratch_memory.h"
#include "lockstep/comm/mesh/shard_reduction.h"

namespace lockstep {

/// Collectives over a mesh of connections, on contiguous memory. Gloo's own collectives are not used: a wait inside
/// them cannot be woken when a connection ends halfway through a message, they accumulate fp16 in fp16, and they need a
/// handshake per phase, which is most of the time of a small all-reduce.
///
/// Large reductions are direct: rank r receives shard r of every rank, reduces, and sends the result to every rank.
/// That is two messages of latency for any number of ranks and no more bytes than a ring. It always reduces in rank
/// order, so the bits do not depend on the chosen algorithm. Small reductions send everything to every rank and reduce
/// everywhere.
///
/// One object serves one operation at a time, in addition to any number of begun ones. All methods throw MeshError.
class MeshCollectives {
 public:
  MeshCollectives(Mesh& mesh, int rank, int size) : mesh_(mesh), rank_(rank), size_(size) {}

  /// Sets the mark of the next operation's messages. The low byte is zero.
  void begin(std::uint64_t slot) { slot_ = slot; }

  void all_reduce(void* data, std::size_t count, const Reduction& reduction);
  void broadcast(void* data, std::size_t bytes, int root);
  void reduce(void* data, std::size_t count, int root, const Reduction& reduction);
  /// The sizes below are sizes of one rank's share.
  void all_gather(void* out, const void* in, std::size_t bytes);
  void reduce_scatter(void* out, const void* in, std::size_t count, const Reduction& reduction);
  void gather(void* out, const void* in, std::size_t bytes, int root);
  void scatter(void* out, const void* in, std::size_t bytes, int root);
  void all_to_all(void* out, const void* in, std::size_t bytes);
  void barrier();

  /// Begins the operation: posts its first messages, marked with `slot`; `finish` does the rest. Null if the operation
  /// is small: its packets must be sent in its turn. May be called from any thread, beside an operation and beside each
  /// other.
  std::unique_ptr<PostedCollective> post_all_reduce(std::uint64_t slot, void* data, std::size_t count,
                                                    const Reduction& reduction);
  std::unique_ptr<PostedCollective> post_reduce_scatter(std::uint64_t slot, void* out, const void* in,
                                                        std::size_t count, const Reduction& reduction);
  std::unique_ptr<PostedCollective> post_all_gather(std::uint64_t slot, void* out, const void* in, std::size_t bytes);
  std::unique_ptr<PostedCollective> post_all_to_all(std::uint64_t slot, void* out, const void* in, std::size_t bytes);

 private:
  int after(int distance) const { return (rank_ + distance) % size_; }
  std::uint64_t slot(int step) const { return slot_ + static_cast<std::uint64_t>(step); }
  MeshPlace place(std::uint64_t slot) { return {mesh_, scratch_, rank_, size_, slot}; }
  std::size_t segment() const;  ///< bytes, a multiple of 64
  /// Whether each rank may send this many bytes to each other rank in packets.
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

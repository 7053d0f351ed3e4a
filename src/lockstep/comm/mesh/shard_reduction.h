#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/comm/mesh/mesh.h"
#include "lockstep/comm/mesh/scratch_memory.h"
#include "lockstep/comm/mesh/traffic.h"

namespace lockstep {

/// How the values of all ranks become one: `combine(out, in, count)` reduces one array per rank, in rank order, into
/// `out`, which may be one of these arrays.
struct Reduction {
  std::size_t element_bytes = 1;
  std::function<void(std::byte* out, const std::vector<const std::byte*>& in, std::size_t count)> combine;
};

/// A rank's part of a tensor, in elements.
struct Shard {
  std::size_t offset;
  std::size_t count;
};
/// One shard for each rank, of whole cache lines if there are enough elements; the first is the longest.
std::vector<Shard> shards_of(std::size_t count, int ranks);

/// The mesh, memory and ranks of an operation.
struct MeshPlace {
  Mesh& mesh;
  ScratchMemory& scratch;
  int rank;
  int size;
  std::uint64_t slot;  ///< the mark of its messages; the low byte is zero

  int after(int distance) const { return (rank + distance) % size; }
  std::uint64_t slot_of_step(int step) const { return slot + static_cast<std::uint64_t>(step); }
};

/// Collects this rank's shard of all ranks' data and reduces it, segment by segment: while one segment is reduced, the
/// next is in transit. Uses messages of step 0.
class ShardReduction {
 public:
  using SegmentReady = std::function<void(std::size_t offset, std::size_t bytes)>;

  /// Posts all sends of this rank, and the receives of the first segments.
  /// @param out  this rank's shard of the result, which may be its shard in `data`
  ShardReduction(const MeshPlace& place, std::byte* out, const void* data, std::vector<Shard> all, Reduction reduction);
  /// Calls `ready`, if given, after each segment of the result, with the segment's place in the shard.
  void finish(const SegmentReady& ready);

 private:
  void post(std::size_t index);

  const MeshPlace place_;
  const std::vector<Shard> all_;
  const Reduction reduction_;
  std::byte* const out_;
  const std::byte* const own_;  // this rank's values of its shard
  const std::size_t own_bytes_;
  const std::size_t segment_;
  const std::size_t room_;  // for a segment in a window
  const std::size_t window_count_;
  ScratchMemory::Loan scratch_;
  // Each window holds one segment from each rank. Each has its own buffer, so that the buffer's count of receives is
  // the window's.
  std::vector<Traffic> windows_;
  Traffic outgoing_;
};

}  // namespace lockstep

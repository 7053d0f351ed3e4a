#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/comm/mesh/mesh.h"
#include "lockstep/comm/mesh/scratch_memory.h"
#include "lockstep/comm/mesh/traffic.h"

namespace lockstep {

/// How the values of all ranks become one: `combine(out, in, count)` reduces one array of each rank, by rank, into
/// `out`, which may be one of them.
struct Reduction {
  std::size_t element_bytes = 1;
  std::function<void(std::byte* out, const std::vector<const std::byte*>& in, std::size_t count)> combine;
};

/// A rank's part of a tensor, in elements.
struct Shard {
  std::size_t offset;
  std::size_t count;
};
/// One for each rank, of whole cache lines where there are enough elements; the first is the longest.
std::vector<Shard> shards_of(std::size_t count, int ranks);

/// Where an operation takes place.
struct MeshPlace {
  Mesh& mesh;
  ScratchMemory& scratch;
  int rank;
  int size;
  std::uint64_t slot;  ///< what its messages are marked with; the low byte is zero

  int after(int distance) const { return (rank + distance) % size; }
  std::uint64_t slot_of_step(int step) const { return slot + static_cast<std::uint64_t>(step); }
};

/// Brings this rank's shard of all ranks' data here and reduces it, segment by segment: while one is worked on, the
/// next is under way. Messages of step 0.
class ShardReduction {
 public:
  using SegmentReady = std::function<void(std::size_t offset, std::size_t bytes)>;

  /// Posts all that leaves here, and the first segments that come.
  /// @param out  this rank's shard of the result, which may be that of `data`
  ShardReduction(const MeshPlace& place, std::byte* out, const void* data, std::vector<Shard> all, Reduction reduction);
  /// `ready`, where given, follows each segment of the result, with its place in the shard.
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
  const std::size_t room_;  // of a segment in a window
  const std::size_t window_count_;
  ScratchMemory::Loan scratch_;
  // Each holds one segment from each rank. One buffer per window: its count of receives then is that of the window.
  std::vector<Traffic> windows_;
  Traffic outgoing_;
};

}  // namespace lockstep

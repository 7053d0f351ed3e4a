#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace lockstep {

/// Memory of which every rank has a copy, and all copies at addresses of this process: what code needs that does more
/// in one pass than a collective can, such as adding all ranks' gradients and updating weights.
///
/// Copies hold what their ranks wrote before a collective (`barrier`, or an all-reduce of a few numbers) as soon as
/// this rank has left it: one before the copies are read, to know that all have filled theirs, and one afterwards,
/// before anybody writes to his own again. Collectives bring the errors, too: a rank that disagrees, dies or is late is
/// named.
///
/// As long as this object lives, so do the copies. Thread-safe.
class SymmetricMemory {
 public:
  /// What an engine gives.
  struct Parts {
    std::vector<std::byte*> copies;  ///< by rank
    std::size_t bytes = 0;           ///< of each
    std::size_t stride_bytes = 0;
    std::function<void()> enter;  ///< before other ranks' copies are touched; throws where the group has ended
    std::function<void()> leave;  ///< afterwards
    std::shared_ptr<void> keeper;
  };
  explicit SymmetricMemory(Parts parts) : parts_(std::move(parts)) {}

  int world_size() const { return static_cast<int>(parts_.copies.size()); }
  std::byte* copy(int rank) const { return parts_.copies.at(static_cast<std::size_t>(rank)); }
  std::size_t bytes() const { return parts_.bytes; }
  /// From one rank's copy to the next one's. For a tensor as `allocate` returned it the copies, each of this size, are
  /// one piece of memory from `copy(0)` on, which ranks may also use as such.
  std::size_t stride_bytes() const { return parts_.stride_bytes; }

  /// Runs `body`, the only place to touch other ranks' copies. A rank whose group ends meanwhile waits for the others'
  /// `body` (for a second at most) before it sees the error, so that its memory is its own again. No collectives in it.
  /// @throws Error  if the group has ended, or what `body` throws
  void access(const std::function<void()>& body) const;

 private:
  Parts parts_;
};

}  // namespace lockstep

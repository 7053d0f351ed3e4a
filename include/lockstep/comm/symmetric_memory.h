#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace lockstep {

/// Memory of which every rank has a copy, with all copies at addresses of this process. It serves code that does more
/// in one pass than a collective can, such as adding all ranks' gradients and updating weights.
///
/// After a collective (`barrier`, or an all-reduce of a few numbers) this rank sees in each copy what its rank wrote
/// before that collective. Use one collective before the copies are read, so that all ranks have filled theirs, and one
/// afterwards, before any rank writes to its own copy again. Collectives also report errors: they name a rank that
/// disagrees, dies or is late.
///
/// The copies live as long as this object. Thread-safe.
class SymmetricMemory {
 public:
  /// The parts that an engine provides.
  struct Parts {
    std::vector<std::byte*> copies;  ///< by rank
    std::size_t bytes = 0;           ///< of each copy
    std::size_t stride_bytes = 0;
    std::function<void()> enter;  ///< called before other ranks' copies are touched; throws if the group has ended
    std::function<void()> leave;  ///< called afterwards
    std::shared_ptr<void> keeper;
  };
  explicit SymmetricMemory(Parts parts) : parts_(std::move(parts)) {}

  int world_size() const { return static_cast<int>(parts_.copies.size()); }
  std::byte* copy(int rank) const { return parts_.copies.at(static_cast<std::size_t>(rank)); }
  std::size_t bytes() const { return parts_.bytes; }
  /// Distance from one rank's copy to the next. For a tensor as `allocate` returned it, the copies, each of this size,
  /// form one piece of memory from `copy(0)` on, and ranks may use it as such.
  std::size_t stride_bytes() const { return parts_.stride_bytes; }

  /// Runs `body`, the only place that may touch other ranks' copies; `body` must not call collectives. If the group
  /// ends meanwhile, this rank waits (at most a second) for the others' `body` before it throws, so that no other rank
  /// still touches its memory.
  /// @throws Error  if the group has ended, or what `body` throws
  void access(const std::function<void()>& body) const;

 private:
  Parts parts_;
};

}  // namespace lockstep

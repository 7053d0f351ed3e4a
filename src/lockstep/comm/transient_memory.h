#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "lockstep/base/files/unique_fd.h"
#include "lockstep/comm/symmetric_memory.h"

namespace lockstep {

/// Where an all_gather puts what ranks send, if it does not lie one after the other.
struct GatherLayout {
  /// `bytes` of a rank's message, from byte `from` on, become those from byte `to` on.
  struct Piece {
    std::size_t from = 0, to = 0, bytes = 0;
  };
  std::vector<std::vector<Piece>> pieces;  ///< by rank, in the order of its message; bytes in no piece are left out

  bool is_plain() const { return pieces.empty(); }
  /// Puts bytes of a rank's message, from byte `begin` on, to where they belong.
  void put(int rank, const std::byte* message, std::size_t begin, std::size_t bytes, std::byte* memory) const;
};

/// One piece of memory for all ranks of a host that is there at times: a collective that writes to it brings it, and it
/// is gone when every rank of the host has left it.
struct TransientMemory {
  at::Tensor memory;                       ///< flat; nothing but a collective writes to it
  UniqueFd file;                           ///< what `memory` maps, from byte 0 on: for other mappings of the same pages
  std::shared_ptr<SymmetricMemory> parts;  ///< its `access` is the only place that may write to `memory`
  /// This rank reads the memory no more, by whatever mapping. Call it once for each collective that wrote to it. The
  /// last rank of the host gives the pages back.
  std::function<void()> leave;
};

/// What a communicator offers beside its collectives if all of its ranks share memory.
class TransientMemoryEngine {
 public:
  virtual ~TransientMemoryEngine() = default;
  /// Memory for all ranks; as yet without pages. Before ranks write to it again they must pass a barrier, after each of
  /// them has left it. Collective.
  /// @throws Error  on every rank, if some rank cannot map it
  virtual TransientMemory allocate_transient(std::int64_t numel, at::ScalarType dtype) = 0;
};

}  // namespace lockstep

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "lockstep/base/files/unique_fd.h"
#include "lockstep/comm/symmetric_memory.h"

namespace lockstep {

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

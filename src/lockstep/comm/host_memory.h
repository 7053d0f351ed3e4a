#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "lockstep/comm/symmetric_memory.h"
#include "lockstep/comm/transient_memory.h"

namespace lockstep {

/// One piece of memory for all ranks of a host. Other hosts have a piece of their own.
struct HostMemory {
  at::Tensor memory;                       ///< flat
  std::shared_ptr<SymmetricMemory> parts;  ///< its `access` is the only place that may write to `memory`
};

/// What a communicator offers beside its collectives if it spans several hosts and its ranks share memory inside each.
class HostMemoryEngine {
 public:
  virtual ~HostMemoryEngine() = default;
  /// Whether every host has equally many ranks, so that the ranks of each can divide the work alike.
  virtual bool has_equal_hosts() const = 0;
  /// Allocates memory on every host, with unspecified content. It may be the `out` of an all_gather, on every rank: one
  /// rank of each host then writes each part, and the call returns when all ranks of the host have written. Collective.
  /// @param numel  a multiple of the number of ranks of a host
  /// @throws Error  on every rank, if memory is short on some host
  virtual HostMemory allocate_for_host(std::int64_t numel, at::ScalarType dtype) = 0;
  /// The same for memory that is there at times, as the `out` of an all_gather on every rank, until every rank of the
  /// host has left it.
  /// @param layout  where the all_gather puts what ranks send; equal on all ranks. Without pieces: as ever
  virtual TransientMemory allocate_transient_for_host(std::int64_t numel, at::ScalarType dtype,
                                                      GatherLayout layout) = 0;
  /// Lets reduce_scatter read `memory`, which is from `allocate`, where it lies, while the result lives. From then on a
  /// rank that passes it as `in` promises that every rank of its host passes the memory of the same call of `allocate`.
  virtual std::shared_ptr<SymmetricMemory> read_in_place(const at::Tensor& memory) = 0;
};

}  // namespace lockstep

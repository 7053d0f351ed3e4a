#pragma once

#include <cstddef>

#include "lockstep/comm/reduce/element_range.h"
#include "lockstep/comm/shm/group.h"
#include "lockstep/comm/shm/operation_order.h"

namespace lockstep::shm {

/// The collectives other than all-reduce. Each reads directly from the other ranks' memory if all can access all of it,
/// otherwise through the staging buffers, piece by piece. `n` is a rank's share; all errors are those of Group.
class Collectives {
 public:
  Collectives(Group& group, OperationOrder& order) : group_(group), order_(order) {}

  void barrier(const Call& call);
  /// `data` becomes the `data` of `root`.
  void broadcast(const Call& call, std::byte* data, std::size_t bytes, int root);
  /// On `root`, `elements` become the reduction.
  void reduce_to(const Call& call, const Elements& elements, Reduction reduction, int root);
  /// `out` [world_size * bytes] becomes all ranks' `in` [bytes].
  void all_gather(const Call& call, std::byte* out, std::byte* in, std::size_t bytes);
  /// Like all_gather, on `root` only; `out` is null on other ranks.
  void gather(const Call& call, std::byte* out, std::byte* in, std::size_t bytes, int root);
  /// `out` [n] becomes this rank's share of the reduction of `in` [world_size * n].
  void reduce_scatter(const Call& call, const Elements& out, std::byte* in, Reduction reduction);
  /// `out` [bytes] becomes this rank's part of the root's `in` [world_size * bytes], which is null on other ranks.
  void scatter(const Call& call, std::byte* out, std::byte* in, std::size_t bytes, int root);
  /// Part i of `in` [world_size * bytes] goes to rank i.
  void all_to_all(const Call& call, std::byte* out, std::byte* in, std::size_t bytes);

 private:
  void gather_to(const Call& call, std::byte* out, std::byte* in, std::size_t bytes);

  Group& group_;
  OperationOrder& order_;
};

}  // namespace lockstep::shm

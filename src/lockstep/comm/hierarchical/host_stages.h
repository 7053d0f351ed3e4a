#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "lockstep/comm/hierarchical/host_parts.h"

namespace lockstep {

/// Collectives in stages: inside hosts, between hosts, inside hosts. Tensors are contiguous; one call at a time.
class HostStages {
 public:
  HostStages(HostParts& parts, int world_size) : parts_(parts), layout_(parts.layout), world_size_(world_size) {}

  void all_reduce(at::Tensor& tensor, ReduceOp op) { reduce_to(tensor, op, -1); }
  /// On ranks other than `root`, the content is unspecified afterwards.
  void reduce(at::Tensor& tensor, int root, ReduceOp op) { reduce_to(tensor, op, root); }
  void broadcast(at::Tensor& tensor, int root);
  void all_gather(at::Tensor& out, const at::Tensor& in);
  void reduce_scatter(at::Tensor& out, const at::Tensor& in, ReduceOp op);
  void barrier();

 private:
  struct PieceOfLane {
    at::Tensor own;
    at::Tensor of_all;  ///< of all hosts' ranks in this lane, by host, once `between`, if it is not null, is over
    std::shared_ptr<Work> between;
  };
  PieceOfLane send_in_lane(const at::Tensor& own, bool waits);
  /// Reduces to `root`, or to all ranks if `root` is negative.
  void reduce_to(at::Tensor& tensor, ReduceOp op, int root);
  void reduce_directly(at::Tensor& flat, ReduceOp op, int root);
  void reduce_by_one_lane(at::Tensor& flat, ReduceOp op, int root);
  void reduce_slices(at::Tensor& flat, ReduceOp op, int root);
  void reduce_in_pieces(at::Tensor& flat, ReduceOp op, std::int64_t piece);
  void reduce_uneven(at::Tensor& flat, ReduceOp op, int root);
  /// The sum over this host's ranks of what goes to the ranks of this lane, by host.
  at::Tensor reduce_for_lane(const at::Tensor& in, std::int64_t count, ReduceOp op);
  /// The same, of memory that this host's ranks can read where it lies.
  void reduce_where_it_lies(at::Tensor& of_lane, const SymmetricMemory& in, ReduceOp op);
  /// all_gather to memory of which each host has one copy. @param in_turn  the host's ranks may still use what is there
  /// until they call this
  void gather_for_host(at::Tensor& out, const at::Tensor& in, const HostMemories::Found& memory, bool in_turn);
  /// The stage between hosts, in this rank's lane.
  void reduce_between(at::Tensor& slice, ReduceOp op, int root);
  bool receives(int root) const { return root < 0 || layout_.host_of(root) == layout_.host; }
  /// The part of `flat` that belongs to `lane`: there are `lanes` slices, and the last ones may be shorter or empty.
  at::Tensor slice_of(const at::Tensor& flat, int lane) const;
  bool one_lane(const at::Tensor& flat) const;
  /// Whether stages cost more than they save for `share`, one rank's part.
  bool direct(const at::Tensor& share) const;

  HostParts& parts_;
  const HostLayout& layout_;
  const int world_size_;
};

}  // namespace lockstep

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/detail/parallel/shard_range.h"

namespace lockstep {

/// The order in which the sums of slices are added: a binary tree over slices 0 to n - 1. A node that is not a
/// leaf is cut at the largest power of two that is smaller than its length, so the tree depends on n alone.
///
///     n = 6:    ((0 + 1) + (2 + 3)) + (4 + 5)
///
/// Whoever adds, in whatever groups, gets the same bits if every addition is one of the tree's.
class SliceTree {
 public:
  /// @param slices  at least 1
  explicit SliceTree(std::int64_t slices) : slices_(slices) {}

  std::int64_t slices() const { return slices_; }
  /// The slices that a rank computes. Ranks have runs of equal length, or lower ranks have one slice more.
  ShardRange run(int rank, int world_size) const;
  /// The largest subtrees that cover a run exactly, in order: at most two for each level of the tree.
  std::vector<ShardRange> subtrees(ShardRange run) const;
  /// Whether a subtree and the subtree behind it are the two parts of a larger one, so that their sums are added.
  bool are_parts_of_one(ShardRange left, ShardRange right) const;

 private:
  std::int64_t slices_;
};

/// Says which sums to add while sums of neighbouring subtrees arrive from left to right.
class SumStack {
 public:
  explicit SumStack(const SliceTree& tree) : tree_(tree) {}

  /// Puts the sum of the next subtree on top. @return  how often the two sums on top are then added
  int push(ShardRange subtree);
  /// The subtrees of which there are sums now, after these additions.
  const std::vector<ShardRange>& subtrees() const { return subtrees_; }
  std::size_t depth() const { return subtrees_.size(); }

 private:
  SliceTree tree_;
  std::vector<ShardRange> subtrees_;
};

}  // namespace lockstep

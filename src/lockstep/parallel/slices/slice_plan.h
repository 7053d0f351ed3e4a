#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/parallel/slices/slice_tree.h"

namespace lockstep {

/// Which rank has which slices, and how the ranks' sums are added. Equal on all ranks.
///
/// A rank adds up what lies in one subtree, and has one partial sum, a *term*, for each of the largest subtrees of its
/// run. All terms in rank order are the terms of the whole tree.
class SlicePlan {
 public:
  /// @param world_size  at most `slices`
  SlicePlan(std::int64_t slices, int rank, int world_size);

  const SliceTree& tree() const { return tree_; }
  ShardRange run() const { return run_; }  ///< of this rank
  std::size_t terms_of(int rank) const { return terms_[static_cast<std::size_t>(rank)].size(); }
  std::size_t terms() const { return terms_of(rank_); }  ///< of this rank
  std::size_t most_terms() const { return most_terms_; }
  std::int64_t longest_run() const { return tree_.run(0, static_cast<int>(terms_.size())).size(); }
  /// Sums that wait on this rank for their partners, at most, before its last slice is added.
  std::size_t most_waiting() const { return most_waiting_; }

  /// One term of the whole tree, in order, and the additions that follow its arrival.
  struct Addition {
    int rank = 0;
    std::size_t term = 0;  ///< of that rank
    int additions = 0;     ///< as SumStack::push
  };
  const std::vector<Addition>& additions() const { return additions_; }
  ShardRange subtree(const Addition& addition) const {
    return terms_[static_cast<std::size_t>(addition.rank)][addition.term];
  }

 private:
  SliceTree tree_;
  int rank_;
  ShardRange run_;
  std::vector<std::vector<ShardRange>> terms_;  // by rank
  std::size_t most_terms_ = 0;
  std::size_t most_waiting_ = 0;
  std::vector<Addition> additions_;
};

}  // namespace lockstep

#include "lockstep/parallel/slices/slice_tree.h"

#include <algorithm>

namespace lockstep {

ShardRange SliceTree::run(int rank, int world_size) const {
  const std::int64_t each = slices_ / world_size;
  const std::int64_t longer = slices_ % world_size;  // ranks that have one slice more
  const auto first_of = [&](std::int64_t r) { return each * r + std::min(r, longer); };
  return {first_of(rank), first_of(rank + 1)};
}

bool SliceTree::are_parts_of_one(ShardRange left, ShardRange right) const {
  if (left.end != right.begin) return false;
  const std::int64_t length = right.end - left.begin;
  std::int64_t half = 1;
  while (2 * half < length) half *= 2;
  const bool is_node = left.begin % (2 * half) == 0 && (length == 2 * half || right.end == slices_);
  return is_node && left.size() == half;
}

std::vector<ShardRange> SliceTree::subtrees(ShardRange run) const {
  SumStack stack(*this);
  for (std::int64_t slice = run.begin; slice < run.end; ++slice) stack.push({slice, slice + 1});
  return stack.subtrees();
}

int SumStack::push(ShardRange subtree) {
  subtrees_.push_back(subtree);
  int additions = 0;
  while (subtrees_.size() > 1 && tree_.are_parts_of_one(subtrees_[subtrees_.size() - 2], subtrees_.back())) {
    const std::int64_t end = subtrees_.back().end;
    subtrees_.pop_back();
    subtrees_.back().end = end;
    ++additions;
  }
  return additions;
}

}  // namespace lockstep

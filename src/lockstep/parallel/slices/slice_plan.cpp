#include "lockstep/parallel/slices/slice_plan.h"

#include <algorithm>

namespace lockstep {

SlicePlan::SlicePlan(std::int64_t slices, int rank, int world_size)
    : tree_(slices), rank_(rank), run_(tree_.run(rank, world_size)) {
  SumStack whole(tree_);
  for (int each = 0; each < world_size; ++each) {
    terms_.push_back(tree_.subtrees(tree_.run(each, world_size)));
    most_terms_ = std::max(most_terms_, terms_.back().size());
    for (std::size_t i = 0; i < terms_.back().size(); ++i) {
      additions_.push_back({each, i, whole.push(terms_.back()[i])});
    }
  }
  SumStack own(tree_);
  for (std::int64_t slice = run_.begin; slice + 1 < run_.end; ++slice) {
    own.push({slice, slice + 1});
    most_waiting_ = std::max(most_waiting_, own.depth());
  }
}

}  // namespace lockstep

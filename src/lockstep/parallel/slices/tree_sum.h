#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "lockstep/parallel/slices/slice_plan.h"

namespace lockstep {

/// Adds all terms of a tree, element by element and in the tree's order, and divides the sum.
/// @param terms    [plan.additions()] pointers to `count` elements each, in that order
/// @param out      gets the result; its memory may be one of the terms
/// @param divisor  of the sum
void add_in_tree(const SlicePlan& plan, const std::vector<const float*>& terms, float* out, std::int64_t count,
                 double divisor);
void add_in_tree(const SlicePlan& plan, const std::vector<const double*>& terms, double* out, std::int64_t count,
                 double divisor);

/// The sum of all slices' `rows`, each of the same sizes, in the tree's order. @param rows  by slice
at::Tensor sum_of_rows(const SliceTree& tree, const std::vector<at::Tensor>& rows);

/// Adds tensors of neighbouring subtrees up as they arrive. For small tensors: each addition makes a new one.
class TermSums {
 public:
  explicit TermSums(const SliceTree& tree) : stack_(tree) {}
  void add(ShardRange subtree, at::Tensor sum);
  /// The sums of the largest subtrees so far, in order.
  const std::vector<at::Tensor>& terms() const { return terms_; }

 private:
  SumStack stack_;
  std::vector<at::Tensor> terms_;
};

}  // namespace lockstep

#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

namespace lockstep {

/// The loss of one batch as a sum and a count. The gradient of Σsum / Σcount over all ranks, replicas and micro-batches
/// equals that of the whole batch, however it was divided; a mean of means does not.
struct LossSum {
  at::Tensor sum;    ///< scalar in the graph: backward starts here
  at::Tensor count;  ///< scalar int64: samples (or tokens) that `sum` counts
  /// sum / count, as PyTorch's losses return it; NaN if the count is 0. If DataParallel gathered the losses of several
  /// replicas as vectors, the result is one number: Σsum / Σcount.
  at::Tensor mean() const { return sum.dim() == 0 ? sum.div(count) : sum.sum().div(count.sum()); }

  template <typename Visit>
  void visit_tensors(Visit&& visit) const {
    visit(sum);
    visit(count);
  }
};

}  // namespace lockstep

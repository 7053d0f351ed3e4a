#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

namespace lockstep {

/// The loss of one batch as a sum and what it counts. The gradient of Σsum / Σcount over all ranks, replicas and
/// micro-batches is that of the whole batch, however it was cut; a mean of means is not.
struct LossSum {
  at::Tensor sum;    ///< scalar of the graph: backward starts here
  at::Tensor count;  ///< scalar int64: samples (or tokens) that `sum` counts
  /// sum / count, as PyTorch's losses return it; NaN if nothing counts. The losses of several replicas, which
  /// DataParallel gathers as vectors, become one: Σsum / Σcount.
  at::Tensor mean() const { return sum.dim() == 0 ? sum.div(count) : sum.sum().div(count.sum()); }

  template <typename Visit>
  void visit_tensors(Visit&& visit) const {
    visit(sum);
    visit(count);
  }
};

}  // namespace lockstep

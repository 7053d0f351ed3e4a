#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/slices/partial_sums.h"
#include "lockstep/parallel/slices/slice_plan.h"

namespace lockstep {

/// Brings all ranks' terms of one bucket to the owners of its parts. A bucket has equal parts, one for each rank. By
/// messages, on any engine: a rank sends each other rank that rank's part of each of its terms.
class TermExchange {
 public:
  /// What is given must outlive this object.
  TermExchange(const SlicePlan& plan, const PartialSums& sums, std::size_t bucket, Communicator& communicator);

  /// Collective. @return  null if there is nothing to wait for
  std::shared_ptr<Work> start();
  /// Waits, adds this rank's part of all terms up, and divides. Collective. @param out  may be the part in the bucket
  void finish(const at::Tensor& out, double divisor);

 private:
  const SlicePlan& plan_;
  const PartialSums& sums_;
  std::size_t bucket_;
  Communicator& communicator_;
  std::vector<at::Tensor> received_;  // by number of the term: all ranks' pieces of this rank's part, in rank order
  std::vector<std::shared_ptr<Work>> pending_;
};

/// Adds terms in the order of the plan. @param terms  pointers to fp32 or fp64 elements, as `out`
void add_terms(const SlicePlan& plan, const std::vector<const void*>& terms, const at::Tensor& out, double divisor);

/// The sum of small tensors over all ranks, in the tree's order, equal on all ranks. Collective.
/// @param terms  this rank's: one for each of its terms, contiguous and of the same sizes everywhere
at::Tensor sum_of_terms(const SlicePlan& plan, const std::vector<at::Tensor>& terms, Communicator& communicator);

}  // namespace lockstep

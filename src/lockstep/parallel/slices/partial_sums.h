#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"
#include "lockstep/parallel/slices/slice_plan.h"

namespace lockstep {

/// This rank's sums of its slices' gradients: one for each of its terms, and those that wait for their partners.
///
/// A slice's gradient is what is in the buckets. The last term of a rank ends there, too; earlier terms have memory
/// beside them, of the communicator, so that ranks which share memory can read them.
class PartialSums {
 public:
  /// Collective. What is given must outlive this object.
  PartialSums(const SlicePlan& plan, const GradientBuckets& buckets, Communicator& communicator);

  /// Before the first slice of an update.
  void start_over();
  /// The buckets hold the next slice's gradient: adds it to the sums. The buckets' content is unspecified afterwards,
  /// except after the last slice.
  void add_slice();
  /// Memory of the rank's term `index` of a bucket, laid out as the bucket; after the last slice it has the term.
  /// There are `plan.most_terms()`, as many as some rank has: without a term of this rank, the content is unspecified.
  const at::Tensor& term(std::size_t bucket, std::size_t index) const;
  /// Memory beside the bucket that all ranks allocated together, `index` below most_terms() - 1. A rank's terms but its
  /// last one are there, in order.
  const at::Tensor& beside(std::size_t bucket, std::size_t index) const;

 private:
  void add_slice(std::size_t bucket, std::size_t depth, int additions, bool is_last);

  const SlicePlan& plan_;
  const GradientBuckets& buckets_;
  SumStack stack_;
  std::vector<std::vector<at::Tensor>> beside_;   // by bucket: sums that are not in it, by their place in the stack
  std::vector<std::vector<at::Tensor>> further_;  // by bucket: memory for other ranks' terms with no term here
};

}  // namespace lockstep

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/detail/tensor/module_tensors.h"
#include "lockstep/parallel/slices/slice_plan.h"
#include "lockstep/parallel/slices/tree_sum.h"

namespace lockstep {

/// A module's buffers, such as the running averages of batch normalisation, over the slices of an update. Each slice
/// starts with the values from before the update. Afterwards floating-point buffers are the mean of what the slices
/// with a forward made of them, added up in the tree's order; whole numbers are the largest of them.
class SliceBuffers {
 public:
  /// @param buffers  read in each update. @throws Error  naming a buffer of a type that has no mean: fp64, complex
  SliceBuffers(const SlicePlan& plan, Communicator& communicator, std::function<std::vector<NamedTensor>()> buffers);

  /// Before the first slice of an update.
  void start_over();
  /// Before a slice: gives the buffers their values from before the update.
  void restore();
  /// A slice has ended. @param had_forward  it had samples
  void add_slice(std::int64_t slice, bool had_forward);
  /// After the last slice: gives the buffers their new values, the same on all ranks. Collective.
  /// @throws AgreedError  if ranks are in different updates; the buffers then have their values from before
  void finish(std::uint64_t update);

 private:
  at::Tensor row(bool had_forward) const;
  at::Tensor largest_of_ranks(std::uint64_t update);
  void write(const at::Tensor& sums);

  const SlicePlan& plan_;
  Communicator& communicator_;
  std::function<std::vector<NamedTensor>()> read_;
  std::vector<at::Tensor> floats_, integers_;  // of this update
  std::vector<at::Tensor> floats_before_, integers_before_;
  std::vector<at::Tensor> largest_;  // of the integers, over this rank's slices
  TermSums sums_;
};

}  // namespace lockstep

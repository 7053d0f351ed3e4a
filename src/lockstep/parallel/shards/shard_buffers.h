#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/detail/tensor/module_tensors.h"
#include "lockstep/parallel/shards/shard_plan.h"
#include "lockstep/parallel/shards/tree_sum.h"

namespace lockstep {

/// A module's buffers, such as the running averages of batch normalisation, over the shards of an update. Each shard
/// starts with the values from before the update. Afterwards floating-point buffers are the mean of what the shards
/// with a forward made of them, added up in the tree's order; whole numbers are the largest of them.
class ShardBuffers {
 public:
  /// @param buffers  read in each update. @throws Error  naming a buffer of a type that has no mean: fp64, complex
  ShardBuffers(const ShardPlan& plan, Communicator& communicator, std::function<std::vector<NamedTensor>()> buffers);

  /// Before the first shard of an update.
  void start_over();
  /// Before a shard: gives the buffers their values from before the update.
  void restore();
  /// A shard has ended. @param had_forward  it had samples
  void add_shard(std::int64_t shard, bool had_forward);
  /// After the last shard: gives the buffers their new values, the same on all ranks. Collective.
  /// @throws AgreedError  if ranks are in different updates; the buffers then have their values from before
  void finish(std::uint64_t update);

 private:
  at::Tensor row(bool had_forward) const;
  at::Tensor largest_of_ranks(std::uint64_t update);
  void write(const at::Tensor& sums);

  const ShardPlan& plan_;
  Communicator& communicator_;
  std::function<std::vector<NamedTensor>()> read_;
  std::vector<at::Tensor> floats_, integers_;  // of this update
  std::vector<at::Tensor> floats_before_, integers_before_;
  std::vector<at::Tensor> largest_;  // of the integers, over this rank's shards
  TermSums sums_;
};

}  // namespace lockstep

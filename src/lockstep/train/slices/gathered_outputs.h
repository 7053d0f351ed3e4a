#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/detail/parallel/shard_range.h"

namespace lockstep {

/// How samples are dealt: one share for each rank, or for each slice, of which a rank has a run. Share s has
/// samples s, s + all, s + 2 all, ...
struct SampleShares {
  std::int64_t all = 1;  ///< number of shares
  ShardRange own;        ///< this rank's
  int rank = 0;
  int ranks = 1;
};
/// @param group  null: one process
SampleShares shares_of_rank(std::int64_t virtual_shards, const Communicator* group);

/// Joins the outputs [n, ...] of all shares into one tensor in the dataset's order. Other dimensions are padded with
/// -100 to the longest. Collective. @param parts  of this rank's shares; undefined if one has none
/// @throws Error  on every rank, if there are several shares, and one has another number of rows than of samples
at::Tensor gather_in_order(const std::vector<at::Tensor>& parts, const SampleShares& shares, std::int64_t samples,
                           Communicator* group);

/// Concatenates tensors [n_i, ...]; other dimensions are padded with -100 to the longest. Undefined if `parts` is
/// empty. @throws Error  if they differ in their number of dimensions, or have none
at::Tensor concatenate_padded(const std::vector<at::Tensor>& parts);

}  // namespace lockstep

// Collectives that autograd differentiates, as torch.distributed.nn.functional has them: for losses that compare
// samples of different ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "lockstep/comm/communicator.h"

namespace lockstep::functional {

/// Each call is collective, and so is its backward: all ranks call the same functions in the same order, and each uses
/// the result in what it differentiates, or in nothing at all. A rank that has no use for it multiplies it by zero;
/// otherwise the others wait for that rank's backward until the group's timeout.
///
/// Gradients are those of the sum of all ranks' losses. DistributedDataParallel divides by the number of ranks, so a
/// model's gradients are those of the mean, as of one process with the whole batch. Second derivatives work, too.
///
/// Messages travel in a group of their own beside `group`, so they may run while DistributedDataParallel averages
/// gradients over `group`.
///
/// @throws Error  as the calls of Communicator; for an operation that has no derivative here

/// All ranks' rows, one rank after the other: [n_0 + n_1 + ..., ...] of [n_rank, ...]. Ranks may have different numbers
/// of rows, and none.
/// @param in  at least one dimension; equal on all ranks but for the first dimension
at::Tensor all_gather(const std::shared_ptr<Communicator>& group, const at::Tensor& in);

/// This rank's part [n, ...] of the sum, or the mean, of all ranks' `in` [world_size * n, ...].
/// @param op  Sum or Avg
at::Tensor reduce_scatter(const std::shared_ptr<Communicator>& group, const at::Tensor& in,
                          ReduceOp op = ReduceOp::Sum);

/// The sum, or the mean, of all ranks' `in`.
/// @param op  Sum or Avg
at::Tensor all_reduce(const std::shared_ptr<Communicator>& group, const at::Tensor& in, ReduceOp op = ReduceOp::Sum);

/// The `in` of rank `root`, whose gradient is the sum of all ranks' gradients; the gradient of the other ranks' `in` is
/// zero.
/// @param in  of the same shape and dtype on all ranks
at::Tensor broadcast(const std::shared_ptr<Communicator>& group, const at::Tensor& in, int root = 0);

}  // namespace lockstep::functional

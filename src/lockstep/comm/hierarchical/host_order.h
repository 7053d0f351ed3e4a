#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/comm/hierarchical/host_layout.h"
#include "lockstep/detail/comm/operation.h"

namespace lockstep {

/// What the stage inside a host and the stage between hosts compute for `op`. If all hosts have equally many ranks, the
/// average of averages is the average, and no sum of fp16 overflows in between. Otherwise both add up, and the sum is
/// divided at the end.
ReduceOp op_of_stages(const HostLayout& layout, ReduceOp op);

/// Reduces the values of all ranks as the stages do, with the same bits: inside each host, then over hosts.
/// @param out  [count]
/// @param in   [ranks * count], by rank
void reduce_in_host_order(at::Tensor& out, const at::Tensor& in, const HostLayout& layout, ReduceOp op);

}  // namespace lockstep

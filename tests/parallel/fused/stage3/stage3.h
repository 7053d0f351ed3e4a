// What tests of weights in shards share.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {

/// Options with a bucket for each parameter.
inline DistributedDataParallelOptions buckets_of_a_parameter(const Group& group) {
  DistributedDataParallelOptions options = fuse_on(group);
  options.bucket_cap_mb = 0.0001;
  return options;
}

/// Copies of all weights, whole. Collective.
template <typename Module>
std::vector<at::Tensor> gathered_weights(DistributedDataParallel<Module>& ddp) {
  ddp.fused_step().unshard();
  std::vector<at::Tensor> result;
  for (const at::Tensor& parameter : ddp.parameters()) result.push_back(parameter.detach().clone());
  ddp.fused_step().reshard();
  return result;
}

inline void expect_equal_bits(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(torch::equal(got[i], want[i])) << i;
}

}  // namespace lockstep

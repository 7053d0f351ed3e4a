// Sums as replicas on devices make them. The CPU stands for the device here; tests/parallel/cuda_test.cpp has devices.
#include "lockstep/replicas/device_sum.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace lockstep {
namespace {

constexpr std::int64_t kLargeGradient = 5 << 20;  // more than one piece in fp32

GradientSum sum_of(const at::Tensor& target, std::vector<at::Tensor> sources, bool is_shared = false) {
  GradientSum sum;
  sum.target = target;
  sum.sources = std::move(sources);
  sum.is_shared = is_shared;
  return sum;
}

TEST(DeviceSum, AddsInTheOrderOfTheSources) {
  const at::Tensor large = at::arange(kLargeGradient, at::kFloat);
  const at::Tensor start = at::full({3}, 1e8, at::kFloat);
  const at::Tensor shared = at::ones({2, 2}, at::kDouble);
  std::vector<GradientSum> sums;
  sums.push_back(sum_of(large.clone(), {large, large}));
  sums.push_back(sum_of(start.clone(), {at::full({3}, 5.F), at::full({3}, -1e8, at::kFloat), at::full({3}, 5.F)}));
  sums.push_back(sum_of(at::Tensor(), {at::full({2}, 3.F), at::full({2}, 4.F)}));
  sums.push_back(sum_of(shared, {at::full({2, 2}, 2, at::kDouble)}, /*is_shared=*/true));
  sums.push_back(sum_of(at::ones({4}), {}));
  sums.push_back(sum_of(at::Tensor(), {}));
  sums.push_back(sum_of(at::zeros({2, 3}), {at::arange(6, at::kFloat).view({3, 2}).t()}));
  sums.push_back(sum_of(at::zeros({3}).to_sparse(), {at::ones({3}).to_sparse(), at::ones({3}).to_sparse()}));
  const at::Tensor in_place = sums[0].target;
  add_on_device(sums);
  EXPECT_TRUE(sums[0].target.is_same(in_place));
  EXPECT_TRUE(sums[0].target.equal(large * 3));
  EXPECT_TRUE(sums[1].target.equal(start + 5.F - 1e8F + 5.F));
  EXPECT_TRUE(sums[2].target.equal(at::full({2}, 7.F)));
  EXPECT_TRUE(sums[3].target.equal(at::full({2, 2}, 3, at::kDouble)));
  EXPECT_TRUE(shared.equal(at::ones({2, 2}, at::kDouble))) << "others hold this memory";
  EXPECT_TRUE(sums[4].target.equal(at::ones({4})));
  EXPECT_FALSE(sums[5].target.defined());
  EXPECT_TRUE(sums[6].target.equal(at::arange(6, at::kFloat).view({3, 2}).t()));
  EXPECT_TRUE(sums[7].target.to_dense().equal(at::full({3}, 2.F)));
}

}  // namespace
}  // namespace lockstep

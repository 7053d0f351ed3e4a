// The hierarchical engine adds up in one order, whatever the size: inside each host, then over hosts.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lockstep/comm/factory.h"
#include "tests/support/pretended_hosts.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

constexpr std::int64_t kSmall = 100;     // goes directly from rank to rank
constexpr std::int64_t kLarge = 300000;  // goes in stages

// Values whose sums depend on the order, the same ones at the beginning of every size.
at::Tensor uneven_values(int rank, std::int64_t count, at::ScalarType dtype) {
  const at::Tensor index = at::arange(count, at::kDouble);
  return at::sin(index * (rank + 1)).add(at::cos(index).mul(10.0 * rank)).to(dtype);
}

class SumOrderOnHosts : public ::testing::TestWithParam<int> {};

// Seconds: large sums go over links of 1 Gbit/s.
TEST_P(SumOrderOnHosts, DoesNotDependOnTheSizeOrTheCall) {
  run_ranks_as_threads(GetParam(), [](const Membership& membership) {
    const auto group = make_communicator("", on_two_hosts(membership));
    ASSERT_STREQ(group->engine(), "hierarchical");
    const int rank = group->rank();
    const int ranks = group->world_size();
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
      for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Avg}) {
        const std::string what = std::string(to_string(op)) + " of " + at::toString(dtype);
        at::Tensor large = uneven_values(rank, kLarge * ranks, dtype);
        group->all_reduce(large, op);
        at::Tensor small = uneven_values(rank, kSmall * ranks, dtype);
        group->all_reduce(small, op);
        EXPECT_TRUE(at::equal(small, large.narrow(0, 0, small.numel()))) << "all_reduce, " << what;
        for (const std::int64_t count : {kSmall, kLarge}) {
          at::Tensor shard = at::empty({count}, dtype);
          group->reduce_scatter(shard, uneven_values(rank, count * ranks, dtype), op);
          EXPECT_TRUE(at::equal(shard, large.narrow(0, rank * count, count)))
              << "reduce_scatter of " << count << ", " << what;
        }
        for (int root = 0; root < ranks; ++root) {
          at::Tensor to_root = uneven_values(rank, kSmall, dtype);
          group->reduce(to_root, root, op);
          if (rank != root) continue;
          EXPECT_TRUE(at::equal(to_root, large.narrow(0, 0, kSmall))) << "reduce to " << root << ", " << what;
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, SumOrderOnHosts, ::testing::Values(3, 4, 5, 6),
                         [](const auto& test) { return std::to_string(test.param) + "_ranks"; });

}  // namespace
}  // namespace lockstep

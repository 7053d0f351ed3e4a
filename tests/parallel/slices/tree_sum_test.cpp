// Tests sums in the order of the shard tree, with numbers whose sums depend on the order.
#include "lockstep/parallel/slices/tree_sum.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/comm/factory.h"
#include "lockstep/parallel/slices/term_exchange.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

// By the tree's definition.
torch::Tensor sum_by_definition(const torch::Tensor& rows, std::int64_t begin, std::int64_t end) {
  if (end - begin == 1) return rows[begin];
  std::int64_t half = 1;
  while (half * 2 < end - begin) half *= 2;
  return sum_by_definition(rows, begin, begin + half) + sum_by_definition(rows, begin + half, end);
}

torch::Tensor shard_rows(std::int64_t shards, std::int64_t numel, torch::Dtype dtype) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(shards));
  return torch::randn({shards, numel}, generator, torch::TensorOptions(dtype));
}

template <typename T>
void expect_tree_sums(torch::Dtype dtype) {
  bool any_differs_from_rank_order = false;
  for (const std::int64_t shards : {1, 2, 3, 5, 6, 7, 8, 13, 16}) {
    for (const std::int64_t numel : {1, 37, 1024, 5000}) {
      const torch::Tensor rows = shard_rows(shards, numel, dtype);
      const SlicePlan plan(shards, 0, static_cast<int>(shards));
      std::vector<const T*> terms;
      for (std::int64_t i = 0; i < shards; ++i) terms.push_back(rows[i].data_ptr<T>());
      const torch::Tensor want = sum_by_definition(rows, 0, shards) / static_cast<double>(shards);
      torch::Tensor got = torch::empty({numel}, dtype);
      add_in_tree(plan, terms, got.data_ptr<T>(), numel, static_cast<double>(shards));
      EXPECT_TRUE(got.equal(want)) << shards << " shards of " << numel;
      torch::Tensor in_order = rows[0].clone();
      for (std::int64_t i = 1; i < shards; ++i) in_order += rows[i];
      any_differs_from_rank_order |= !want.equal(in_order / static_cast<double>(shards));
      add_in_tree(plan, terms, rows[0].data_ptr<T>(), numel, static_cast<double>(shards));  // in place
      EXPECT_TRUE(rows[0].equal(want));
    }
  }
  EXPECT_TRUE(any_differs_from_rank_order);
}

TEST(TreeSum, AddsByTheTreesDefinition) {
  expect_tree_sums<float>(torch::kFloat);
  expect_tree_sums<double>(torch::kDouble);
}

TEST(TreeSum, SmallTensorsAddUpOverRanksToo) {
  for (const std::int64_t shards : {5, 8, 11}) {
    const torch::Tensor rows = shard_rows(shards, 9, torch::kDouble);
    const torch::Tensor want = sum_by_definition(rows, 0, shards);
    const SliceTree tree(shards);
    std::vector<at::Tensor> list;
    for (std::int64_t i = 0; i < shards; ++i) list.push_back(rows[i]);
    EXPECT_TRUE(sum_of_rows(tree, list).equal(want));
    for (const int ranks : {1, 2, 3, 5}) {
      run_ranks_as_threads(ranks, [&](const Membership& membership) {
        const auto group = make_communicator("thread", membership);
        const SlicePlan plan(shards, group->rank(), ranks);
        TermSums own(tree);
        for (std::int64_t shard = plan.run().begin; shard < plan.run().end; ++shard) {
          own.add({shard, shard + 1}, rows[shard]);
        }
        EXPECT_TRUE(sum_of_terms(plan, own.terms(), *group).equal(want));
      });
    }
  }
}

}  // namespace
}  // namespace lockstep

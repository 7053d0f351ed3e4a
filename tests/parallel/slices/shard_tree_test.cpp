// Tests the tree in which virtual shards are added, and who adds what of it.
#include "lockstep/parallel/slices/slice_tree.h"

#include <gtest/gtest.h>

#include <string>

#include "lockstep/parallel/slices/slice_plan.h"

namespace lockstep {

void PrintTo(const ShardRange& range, std::ostream* out) { *out << "[" << range.begin << ", " << range.end << ")"; }

namespace {

// The tree's text by its definition: a node is cut at the largest power of two below its length.
std::string tree_text(std::int64_t begin, std::int64_t end) {
  if (end - begin == 1) return std::to_string(begin);
  std::int64_t half = 1;
  while (half * 2 < end - begin) half *= 2;
  return "(" + tree_text(begin, begin + half) + "+" + tree_text(begin + half, end) + ")";
}

TEST(ShardTree, IsThatOfItsExample) {
  EXPECT_EQ(tree_text(0, 6), "(((0+1)+(2+3))+(4+5))");
  EXPECT_EQ(tree_text(0, 7), "(((0+1)+(2+3))+((4+5)+6))");
  EXPECT_EQ(tree_text(0, 1), "0");
}

struct RunOfRank {
  const char* name;
  std::int64_t shards;
  int rank, world_size;
  ShardRange run;
  std::vector<ShardRange> subtrees;
  friend std::ostream& operator<<(std::ostream& out, const RunOfRank& row) { return out << row.name; }
};

class ShardRuns : public ::testing::TestWithParam<RunOfRank> {};

TEST_P(ShardRuns, ConsistOfTheLargestSubtrees) {
  const SliceTree tree(GetParam().shards);
  const ShardRange run = tree.run(GetParam().rank, GetParam().world_size);
  EXPECT_EQ(run, GetParam().run);
  EXPECT_EQ(tree.subtrees(run), GetParam().subtrees);
}

// By hand.
INSTANTIATE_TEST_SUITE_P(Table, ShardRuns,
                         ::testing::Values(RunOfRank{"all", 8, 0, 1, {0, 8}, {{0, 8}}},
                                           RunOfRank{"half", 8, 1, 2, {4, 8}, {{4, 8}}},
                                           RunOfRank{"one_each", 8, 5, 8, {5, 6}, {{5, 6}}},
                                           RunOfRank{"first_of_three", 8, 0, 3, {0, 3}, {{0, 2}, {2, 3}}},
                                           RunOfRank{"second_of_three", 8, 1, 3, {3, 6}, {{3, 4}, {4, 6}}},
                                           RunOfRank{"last_of_three", 8, 2, 3, {6, 8}, {{6, 8}}},
                                           RunOfRank{"six_of_one", 6, 0, 1, {0, 6}, {{0, 6}}},
                                           RunOfRank{"last_of_six_by_two", 6, 1, 2, {3, 6}, {{3, 4}, {4, 6}}},
                                           RunOfRank{"end_of_seven", 7, 1, 2, {4, 7}, {{4, 7}}},
                                           RunOfRank{"middle_of_sixteen", 16, 1, 5, {4, 7}, {{4, 6}, {6, 7}}},
                                           RunOfRank{"across_the_middle", 16, 2, 5, {7, 10}, {{7, 8}, {8, 10}}}),
                         [](const auto& test) { return test.param.name; });

// Adds texts in place of numbers.
class TextSums {
 public:
  explicit TextSums(const SliceTree& tree) : stack_(tree) {}
  void add(ShardRange subtree, const std::string& text) {
    texts_.push_back(text);
    for (int left = stack_.push(subtree); left > 0; --left) {
      const std::string right = texts_.back();
      texts_.pop_back();
      texts_.back() = "(" + texts_.back() + "+" + right + ")";
    }
  }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  SumStack stack_;
  std::vector<std::string> texts_;
};

TEST(ShardPlan, AddsTheSameTreeOnAnyNumberOfRanks) {
  for (std::int64_t shards = 1; shards <= 33; ++shards) {
    for (int ranks = 1; ranks <= shards; ++ranks) {
      SCOPED_TRACE("shards " + std::to_string(shards) + ", ranks " + std::to_string(ranks));
      const SliceTree tree(shards);
      TextSums whole(tree);
      const SlicePlan plan(shards, 0, ranks);
      std::vector<std::vector<std::string>> of_ranks;
      std::int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const ShardRange run = tree.run(rank, ranks);
        EXPECT_EQ(run.begin, next);
        next = run.end;
        EXPECT_GE(run.size(), shards / ranks);
        EXPECT_LE(run.size(), shards / ranks + 1);
        TextSums own(tree);
        for (std::int64_t shard = run.begin; shard < run.end; ++shard) {
          own.add({shard, shard + 1}, std::to_string(shard));
        }
        EXPECT_EQ(own.texts().size(), plan.terms_of(rank));
        of_ranks.push_back(own.texts());
      }
      EXPECT_EQ(next, shards);
      for (const SlicePlan::Addition& each : plan.additions()) {
        whole.add(plan.subtree(each), of_ranks[static_cast<std::size_t>(each.rank)][each.term]);
      }
      EXPECT_EQ(whole.texts(), std::vector<std::string>{tree_text(0, shards)});
    }
  }
}

TEST(ShardPlan, EachRankHasOneTermIfShardsDivideByAPowerOfTwo) {
  for (const int ranks : {1, 2, 4, 8, 16}) EXPECT_EQ(SlicePlan(16, 0, ranks).most_terms(), 1) << ranks;
  EXPECT_EQ(SlicePlan(24, 0, 3).most_terms(), 1);
  EXPECT_EQ(SlicePlan(16, 0, 3).most_terms(), 3);  // rank 1 has 6 to 10: 6 to 7, 8 to 9, and 10
}

}  // namespace
}  // namespace lockstep

// A turn of `lockstep bench all-reduce`: what it measures, and that it notices wrong sums.
#include "bench/workers/all_reduce_turn.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "bench/workers/all_reduce_bound.h"
#include "bench/workers/plain_loops.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::bench {
namespace {

/// One rank whose turns are read from a file and answered in a file, as pipes would be.
class AllReduceTurn : public ::testing::Test {
 protected:
  std::vector<std::string> answers_to(const AllReduceRank& rank, const std::string& turns) {
    std::ofstream(folder_ / "in.0") << turns;
    take_turns(rank, folder_.path());
    std::ifstream out(folder_ / "out.0");
    std::string line;
    std::getline(out, line);
    EXPECT_EQ(line, "ready");
    std::vector<std::string> lines;
    while (std::getline(out, line)) lines.push_back(line);
    return lines;
  }
  AllReduceRank rank_with(std::size_t largest_bytes) {
    memory_.assign(region_bytes(largest_bytes) / sizeof(float) + 16, 0.0F);
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    AllReduceRank rank;
    rank.region = memory_.data() + (64 - address % 64) % 64 / sizeof(float);
    rank.region_bytes = region_bytes(largest_bytes);
    rank.synchronise = [] {};
    return rank;
  }
  // The sum over one rank is what the rank has.
  static AllReduceWay right_way(float* region, int* calls) {
    return {[calls](std::size_t, std::size_t) { ++*calls; }, region};
  }
  static AllReduceWay wrong_way(float* region) {
    return {[region](std::size_t offset, std::size_t) { region[offset] += 1.0F; }, region};
  }

  TemporaryFolder folder_;
  std::vector<float> memory_;
};

// 128 KiB: 1024 buffers, which the operations between two looks at the clock do not divide.
TEST_F(AllReduceTurn, ReducesEveryBufferThatItChecks) {
  AllReduceRank rank = rank_with(std::size_t{128} << 10);
  std::vector<std::size_t> offsets;
  rank.ways.push_back({[&](std::size_t offset, std::size_t) { offsets.push_back(offset); }, rank.region});
  std::size_t positions = 0, stride = 0;
  rank.prepare = [&](std::size_t, std::size_t step, std::size_t all) {
    stride = step;
    positions = all;
  };
  EXPECT_EQ(answers_to(rank, "131072\n").size(), 1U);
  ASSERT_EQ(offsets.size(), positions);
  for (std::size_t p = 0; p < positions; ++p) ASSERT_EQ(offsets[p], p * stride);
}

TEST_F(AllReduceTurn, RefusesAWrongSumOfAnyWay) {
  AllReduceRank rank = rank_with(4096);
  int calls = 0;
  rank.ways = {right_way(rank.region, &calls), wrong_way(rank.region), right_way(rank.region, &calls)};
  const std::vector<std::string> answers = answers_to(rank, "4096\n");
  EXPECT_EQ(answers, std::vector<std::string>{"error: a sum of 4096 bytes is wrong"});
  EXPECT_GT(calls, 0);
}

TEST_F(AllReduceTurn, LeavesOutWaysThatAreForSmallerTensors) {
  AllReduceRank rank = rank_with(8192);
  int calls = 0;
  AllReduceWay for_small = wrong_way(rank.region);
  for_small.most_bytes = 4096;
  rank.ways = {for_small, right_way(rank.region, &calls)};
  const std::vector<std::string> answers = answers_to(rank, "4096\n8192\n");
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0], "error: a sum of 4096 bytes is wrong");
  EXPECT_GT(std::stod(answers[1]), 0);
}

// Every way of the bound passes the barrier in each operation, in both orders for small tensors, and doubles its data.
TEST_F(AllReduceTurn, BoundsByABarrierAndThePlainLoops) {
  AllReduceRank rank = rank_with(std::size_t{1} << 20);
  std::vector<float> spare(memory_.size());
  const auto address = reinterpret_cast<std::uintptr_t>(spare.data());
  float* const aligned = spare.data() + (64 - address % 64) % 64 / sizeof(float);
  BareBarrier::Word flag{0};
  BareBarrier barrier({&flag}, 0, /*shares_cores=*/false);
  rank.doubles = true;
  rank.ways = bound_ways(rank.region, aligned, barrier);
  EXPECT_EQ(rank.ways.size(), 2 * plain_loops().size());
  std::size_t positions = 0;
  rank.prepare = [&](std::size_t, std::size_t, std::size_t all) { positions = all; };

  std::vector<std::string> answers = answers_to(rank, "4\n");
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_GT(std::stod(answers[0]), 0) << answers[0];
  EXPECT_EQ(flag.load(), 2 * plain_loops().size() * positions);

  flag = 0;
  BareBarrier again({&flag}, 0, /*shares_cores=*/false);
  rank.ways = bound_ways(rank.region, aligned, again);
  answers = answers_to(rank, "1048576\n");
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_GT(std::stod(answers[0]), 0) << answers[0];
  EXPECT_EQ(flag.load(), plain_loops().size() * positions);
}

TEST_F(AllReduceTurn, BoundsInPlaceAloneWithoutSpareMemory) {
  AllReduceRank rank = rank_with(4096);
  BareBarrier::Word flag{0};
  BareBarrier barrier({&flag}, 0, /*shares_cores=*/false);
  for (const AllReduceWay& way : bound_ways(rank.region, nullptr, barrier)) EXPECT_EQ(way.sums, rank.region);
}

}  // namespace
}  // namespace lockstep::bench

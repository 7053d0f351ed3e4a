#include "lockstep/data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "lockstep/base/group_place.h"
#include "lockstep/data/distributed_sampler.h"
#include "lockstep/data/exact_distributed_sampler.h"
#include "lockstep/data/random_sampler.h"
#include "lockstep/data/sequential_sampler.h"
#include "tests/support/expect_error.h"

namespace lockstep {
namespace {

using Indices = std::vector<std::int64_t>;

struct SamplerCase {
  const char* name;
  std::int64_t size;
  DistributedSamplerOptions options;
  std::int64_t epoch;
  Indices want;  // printed by PyTorch 1.13's DistributedSampler; the unshuffled ones are obvious
  friend std::ostream& operator<<(std::ostream& out, const SamplerCase& c) { return out << c.name; }
};
class DistributedSamplerTable : public ::testing::TestWithParam<SamplerCase> {};

TEST_P(DistributedSamplerTable, TakesWhatPyTorchTakes) {
  const SamplerCase& c = GetParam();
  DistributedSampler sampler(c.size, c.options);
  sampler.set_epoch(c.epoch);
  EXPECT_EQ(sampler.indices(), c.want);
  EXPECT_EQ(sampler.size(), static_cast<std::int64_t>(c.want.size()));
}

// num_replicas, rank, shuffle, seed, drop_last
INSTANTIATE_TEST_SUITE_P(Table, DistributedSamplerTable,
                         ::testing::Values(SamplerCase{"in_order", 6, {2, 1, false}, 0, {1, 3, 5}},
                                           SamplerCase{"in_order_padded", 5, {2, 1, false}, 0, {1, 3, 0}},
                                           SamplerCase{"in_order_dropped", 5, {2, 1, false, 0, true}, 0, {1, 3}},
                                           SamplerCase{"in_order_padded_three_times", 2, {7, 6, false}, 0, {0}},
                                           SamplerCase{"one_replica", 3, {1, 0, false}, 0, {0, 1, 2}},
                                           SamplerCase{"shuffled", 5, {2, 0}, 0, {4, 1, 2}},
                                           SamplerCase{"shuffled_padded", 5, {2, 1}, 0, {0, 3, 4}},
                                           SamplerCase{"epoch", 10, {4, 0}, 1, {5, 0, 7}},
                                           SamplerCase{"epoch_padded", 10, {4, 3}, 1, {2, 3, 6}},
                                           SamplerCase{"epoch_dropped", 10, {4, 3, true, 0, true}, 1, {2, 3}},
                                           SamplerCase{"more_replicas", 2, {5, 4, true, 7}, 3, {1}},
                                           SamplerCase{"many_more_replicas", 3, {8, 7}, 0, {0}},
                                           SamplerCase{"nothing_left", 2, {4, 1, true, 0, true}, 0, {}},
                                           SamplerCase{"seed", 10, {3, 2, true, 42}, 9, {7, 9, 8, 1}}),
                         [](const auto& test) { return test.param.name; });

TEST(RandomSampler, IsTorchRandperm) {
  EXPECT_EQ(RandomSampler(12, 3).indices(), (Indices{10, 9, 1, 6, 4, 11, 3, 7, 2, 0, 8, 5}));
  const Indices order = RandomSampler(100000, 1).indices();
  std::int64_t checksum = 0;
  for (std::size_t i = 0; i < order.size(); ++i) checksum += order[i] * static_cast<std::int64_t>(i);
  EXPECT_EQ(checksum, 250045669102040);
}

TEST(RandomSampler, ShufflesAnewEachPass) {
  RandomSampler sampler(50);
  sampler.begin_epoch();
  const Indices first = sampler.indices();
  EXPECT_EQ(sampler.begin_epoch().epoch, 1);
  EXPECT_NE(sampler.indices(), first);
  sampler.set_epoch(0);
  sampler.begin_epoch();
  EXPECT_EQ(sampler.indices(), first);
}

TEST(DistributedSampler, KeepsTheEpochUntilItIsSet) {
  DistributedSampler sampler(50, {2, 0});
  sampler.begin_epoch();
  const Indices first = sampler.indices();
  EXPECT_EQ(sampler.begin_epoch().epoch, 0);
  EXPECT_EQ(sampler.indices(), first);
}

TEST(ExactDistributedSampler, GivesEverySampleOnce) {
  for (const bool shuffle : {false, true}) {
    for (const std::int64_t size : {1, 2, 5, 8, 31}) {
      for (const std::int64_t replicas : {1, 2, 3, 8, 40}) {
        Indices all;
        std::int64_t least = size;
        std::int64_t most = 0;
        for (std::int64_t rank = 0; rank < replicas; ++rank) {
          const ExactDistributedSampler sampler(size, {replicas, rank, shuffle, 5});
          const Indices share = sampler.indices();
          EXPECT_EQ(sampler.size(), static_cast<std::int64_t>(share.size()));
          least = std::min(least, sampler.size());
          most = std::max(most, sampler.size());
          all.insert(all.end(), share.begin(), share.end());
        }
        std::sort(all.begin(), all.end());
        Indices want(static_cast<std::size_t>(size));
        std::iota(want.begin(), want.end(), 0);
        EXPECT_EQ(all, want) << size << " samples, " << replicas << " replicas";
        EXPECT_LE(most - least, 1);
      }
    }
  }
}

TEST(ExactDistributedSampler, TakesEverySecondOfTwo) {
  EXPECT_EQ(ExactDistributedSampler(5, {2, 0}).indices(), (Indices{0, 2, 4}));
  EXPECT_EQ(ExactDistributedSampler(5, {2, 1}).indices(), (Indices{1, 3}));
  EXPECT_EQ(ExactDistributedSampler(2, {4, 3}).indices(), Indices{});
}

TEST(Sampler, IndicesOfARangeAreCutAtTheEnd) {
  const SequentialSampler sampler(5);
  EXPECT_EQ(sampler.indices(sampler.state(), 3, 10), (Indices{3, 4}));
  EXPECT_EQ(sampler.indices(sampler.state(), 7, 1), Indices{});
  EXPECT_EQ(sampler.indices(sampler.state(), 1, 2), (Indices{1, 2}));
}

TEST(Sampler, GoesOnWhereItsStateSays) {
  DistributedSampler sampler(100, {3, 1, true, 9});
  sampler.set_epoch(4);
  sampler.begin_epoch();
  sampler.advance(7);

  DistributedSampler resumed(100, {3, 1});
  resumed.load_state(sampler.state());
  resumed.set_epoch(4);  // as in the loop over epochs; the loaded epoch keeps its position
  EXPECT_EQ(resumed.begin_epoch().position, 7);
  EXPECT_EQ(resumed.indices(), sampler.indices());
  EXPECT_EQ(resumed.begin_epoch().position, 0);
}

TEST(Sampler, AnotherEpochStartsAtItsFirstSample) {
  DistributedSampler sampler(100, {3, 1});
  sampler.load_state({0, 4, 7, 100, 3});
  sampler.set_epoch(5);
  EXPECT_EQ(sampler.begin_epoch().position, 0);
}

TEST(Sampler, AnEpochSetWhileAnotherRunsDoesNotMoveIt) {
  SequentialSampler sampler(10);
  const SamplerState started = sampler.begin_epoch();
  sampler.set_epoch(1);
  sampler.advance(3);  // of epoch 0
  EXPECT_EQ(sampler.state().position, 0);
  EXPECT_EQ(started.epoch, 0);
}

// As OSLO's tutorial does with LOCAL_WORLD_SIZE: ranks 0 and 1 of two hosts with two ranks each see no error.
TEST(DistributedSampler, WarnsOnceIfSeveralRanksOfTheGroupReadTheSameSamples) {
  const auto words_of = [](const DistributedSamplerOptions& options) {
    testing::internal::CaptureStderr();
    const DistributedSampler sampler(10, options);
    return testing::internal::GetCapturedStderr();
  };
  const ThreadPlace rank_1_of_4(GroupPlace{1, 4});
  EXPECT_EQ(words_of({4, 1}), "");
  EXPECT_EQ(words_of({}), "");
  EXPECT_EQ(words_of({1, 0, false}), "") << "not shuffled: an evaluation of all samples by each rank";
  const std::string said = words_of({2, 1});
  EXPECT_NE(said.find("num_replicas is 2 and the default group has 4 ranks"), std::string::npos) << said;
  EXPECT_EQ(words_of({1, 0}), "") << "once";
}

TEST(Sampler, RefusesWhatCannotBe) {
  expect_error("Invalid rank 2, rank should be in the interval [0, 1]", [] { DistributedSampler(5, {2, 2}); });
  expect_error("Invalid rank -1, rank should be in the interval [0, 1]", [] { DistributedSampler(5, {2, -1}); });
  expect_error("Invalid rank 2, rank should be in the interval [0, 1]", [] { ExactDistributedSampler(5, {2, 2}); });
  expect_error("Invalid number of replicas 0", [] { DistributedSampler(5, {0, 0}); });
  expect_error("cannot sample from a dataset of 0 samples", [] { DistributedSampler(0, {2, 0}); });
  expect_error("cannot sample from a dataset of 0 samples", [] { ExactDistributedSampler(0, {2, 0}); });
  expect_error("cannot sample from a dataset of 0 samples", [] { SequentialSampler(0); });
  expect_error("cannot sample from a dataset of -3 samples", [] { RandomSampler(-3); });
  expect_error("epoch -1 is negative", [] { RandomSampler(3).set_epoch(-1); });
  expect_error("for 100 samples over 2 replicas, but this sampler has 100 over 4", [] {
    DistributedSampler(100, {4, 0}).load_state(DistributedSampler(100, {2, 0}).state());
  });
  expect_error("no position 26", [] { DistributedSampler(100, {4, 0}).load_state({0, 0, 26, 100, 4}); });
  expect_error("no position -1", [] { DistributedSampler(100, {4, 0}).load_state({0, 0, -1, 100, 4}); });
}

}  // namespace
}  // namespace lockstep

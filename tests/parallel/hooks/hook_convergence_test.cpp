// Tests that hooks which send less learn real data as well as plain averages do in equal numbers of steps.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>

#include "lockstep/comm/factory.h"
#include "tests/support/digits_training.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

constexpr std::int64_t kImages = 12800;
constexpr int kEpochs = 6;
constexpr int kWarmUp = 20;

class HookConvergence : public ::testing::TestWithParam<int> {};

TEST_P(HookConvergence, OnMnistIsThatOfPlainAverages) {
  const auto data = read_digits(LOCKSTEP_SHARED_DATA "/mnist", kImages);
  if (!data) GTEST_SKIP() << "MNIST is not in " LOCKSTEP_SHARED_DATA "/mnist";
  std::map<std::string, TrainingEnd> ends;
  RanksOptions options;
  options.timeout = options.deadline = std::chrono::minutes(8);  // a busy machine computes slowly
  const auto train = [&](const Membership& membership) {
    const std::shared_ptr<Communicator> group = make_communicator("", membership);
    for (const SlowNetworkWay& way : slow_network_ways(kWarmUp)) {
      const TrainingEnd end = train_on_digits(way, group, *data, kEpochs);
      if (membership.rank == 0) ends[way.name] = end;
    }
  };
  run_ranks_as_threads(GetParam(), train, options);
  const TrainingEnd plain = ends.at("allreduce (fp32)");
  EXPECT_GT(plain.accuracy, 90) << "else nothing was learned, and the others have nothing to reach";
  // Tolerances: points of accuracy below the plain result, and a fraction of its loss above it.
  const auto reaches = [&](const std::string& name, double points, double part) {
    const TrainingEnd end = ends.at(name);
    EXPECT_GT(end.accuracy, plain.accuracy - points) << name << ", plain averages reach " << plain.accuracy;
    EXPECT_LT(end.loss, plain.loss * (1 + part)) << name << ", plain averages have a loss of " << plain.loss;
  };
  reaches("fp16", 0.5, 0.05);
  reaches("bf16", 0.5, 0.05);
  reaches("int8", 0.5, 0.05);
  reaches("powersgd, rank 4", 0.7, 0.1);
  reaches("post-local SGD, every 8", 0.7, 0.1);
  reaches("DiLoCo, every 8", 2, 0.4);  // its outer momentum needs more synchronisations than these
}

// Seven trainings of six epochs take ten seconds of two cores; with more ranks the hooks do the same more often.
INSTANTIATE_TEST_SUITE_P(Ranks, HookConvergence, ::testing::Values(2),
                         [](const auto& test) { return std::to_string(test.param); });
INSTANTIATE_TEST_SUITE_P(RanksLong, HookConvergence, ::testing::Values(4),
                         [](const auto& test) { return std::to_string(test.param); });

}  // namespace
}  // namespace lockstep

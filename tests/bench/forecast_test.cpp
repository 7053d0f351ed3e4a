// Tests forecasts of steps on several hosts with cases worked out by hand, and with a plain simulation in small time
// steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "bench/plan/cluster_forecast.h"
#include "bench/plan/communication_cost.h"
#include "bench/plan/step_forecast.h"

namespace lockstep {
namespace {

StepProfile profile_of(std::vector<double> ready_s, double backward_s) {
  StepProfile profile;
  profile.forward_s = 10;
  profile.backward_s = backward_s;
  profile.update_s = 1;
  for (const double ready : ready_s) profile.gradients.push_back({1 << 20, ready});
  return profile;
}

ForecastBucket bucket_of(std::vector<std::size_t> gradients, double seconds, double cpu_s = 0) {
  ForecastBucket bucket;
  bucket.gradients = std::move(gradients);
  bucket.cost.leaving = {seconds, cpu_s};
  return bucket;
}

struct ForecastCase {
  const char* name;
  StepProfile profile;
  std::vector<ForecastBucket> buckets;
  double step_s;
  double exposed_s;
};

class ForecastStep : public ::testing::TestWithParam<ForecastCase> {};

TEST_P(ForecastStep, IsWhatOneFindsByHand) {
  const StepForecast forecast = forecast_step(GetParam().profile, GetParam().buckets);
  EXPECT_NEAR(forecast.step_s, GetParam().step_s, 1e-9);
  EXPECT_NEAR(forecast.exposed_s, GetParam().exposed_s, 1e-9);
}

ForecastBucket with_thread(ForecastBucket bucket, double start_s, double finish_s) {
  bucket.cost.start_s = start_s;
  bucket.cost.finish_s = finish_s;
  return bucket;
}

ForecastBucket with_second(ForecastBucket bucket, double middle_s, double seconds) {
  bucket.cost.middle_s = middle_s;
  bucket.cost.coming = {seconds, 0};
  return bucket;
}

StepProfile with_free_cores(StepProfile profile) {
  profile.cores_are_busy = false;
  return profile;
}

INSTANTIATE_TEST_SUITE_P(
    Table, ForecastStep,
    ::testing::Values(
        ForecastCase{"no_communication", profile_of({2}, 4), {}, 15, 0},
        // The only bucket leaves when backward ends, although its gradient is ready earlier.
        ForecastCase{"one_bucket", profile_of({2}, 4), {bucket_of({0}, 3)}, 18, 3},
        // 1 to 3 during backward, then 4 to 7.
        ForecastCase{"the_first_is_hidden", profile_of({4, 1}, 4), {bucket_of({1}, 2), bucket_of({0}, 3)}, 18, 3},
        // 1 to 6; the second waits for the network until then, 6 to 9.
        ForecastCase{"the_network_is_busy", profile_of({4, 1}, 4), {bucket_of({1}, 5), bucket_of({0}, 3)}, 20, 5},
        // Gradients of the second bucket are ready first, but buckets leave in order: 3 to 4, 4 to 5, 5 to 6.
        ForecastCase{"buckets_leave_in_order",
                     profile_of({4, 1, 3}, 4),
                     {bucket_of({2}, 1), bucket_of({1}, 1), bucket_of({0}, 1)},
                     17,
                     2},
        // From 1 to 3 backward gets half of the core, and ends at 5: 5 to 8.
        ForecastCase{"communication_computes", profile_of({4, 1}, 4), {bucket_of({1}, 2, 1), bucket_of({0}, 3)}, 19, 4},
        ForecastCase{"on_a_core_of_its_own",
                     with_free_cores(profile_of({4, 1}, 4)),
                     {bucket_of({1}, 2, 1), bucket_of({0}, 3)},
                     18,
                     3},
        // The thread works for half a second before each bucket leaves: 1.5 to 3.5, and 5 to 8; then on both results.
        ForecastCase{"a_hook_works",
                     profile_of({4, 1}, 4),
                     {with_thread(bucket_of({1}, 2), 0.5, 0.25), with_thread(bucket_of({0}, 3), 0.5, 0.25)},
                     19.25,
                     4.25},
        // First operations end at 3 and 7. The first bucket's result is processed from 4 to 5, but its second operation
        // follows the second bucket's first one: 7 to 8. The second result is processed meanwhile: 8 to 9.
        ForecastCase{"two_rounds",
                     profile_of({4, 1}, 4),
                     {with_second(bucket_of({1}, 2), 1, 1), with_second(bucket_of({0}, 3), 1, 1)},
                     20,
                     5},
        // As before, and storing each result takes half a second: the first one at 8, during the second operation, the
        // second one at 9.
        ForecastCase{"two_rounds_and_finishes",
                     profile_of({4, 1}, 4),
                     {with_thread(with_second(bucket_of({1}, 2), 1, 1), 0, 0.5),
                      with_thread(with_second(bucket_of({0}, 3), 1, 1), 0, 0.5)},
                     20.5,
                     5.5}),
    [](const auto& test) { return test.param.name; });

// Simulates the step in small time steps, independently of the code under test.
double plain_step_s(const StepProfile& profile, const std::vector<ForecastBucket>& buckets) {
  constexpr double kTick = 1e-4;
  std::vector<double> needs;  // work of the thread before each bucket leaves
  double largest = 0, prepared = 0;
  for (std::size_t k = 0; k < buckets.size(); ++k) {
    for (const std::size_t i : buckets[k].gradients) largest = std::max(largest, profile.gradients[i].ready_s);
    if (k + 1 == buckets.size()) largest = profile.backward_s;
    prepared += buckets[k].cost.start_s;
    needs.push_back(largest + prepared);
  }
  double now = 0, work = 0, left_of_operation = 0, left_of_finish = 0;
  std::size_t launched = 0, ended = 0, finished = 0;
  while (finished < buckets.size()) {
    const bool operating = ended < launched;
    if (operating && left_of_operation <= 0) left_of_operation = buckets[ended].cost.leaving.seconds;
    double speed = 1;
    if (operating && launched < buckets.size() && profile.cores_are_busy) {
      speed = 1 - std::min(0.75, buckets[ended].cost.leaving.cpu_s / buckets[ended].cost.leaving.seconds);
    }
    now += kTick;
    if (launched < buckets.size()) {
      work += kTick * speed;
      while (launched < buckets.size() && work >= needs[launched]) ++launched;
    } else if (finished < ended) {
      left_of_finish += kTick;
      if (left_of_finish >= buckets[finished].cost.finish_s) {
        ++finished;
        left_of_finish = 0;
      }
    }
    if (operating && (left_of_operation -= kTick) <= 0) ++ended;
  }
  return profile.forward_s + now + profile.update_s;
}

TEST(ForecastStepAtRandom, IsWhatAPlainComputationFinds) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> part(0.05, 1);
  for (int round = 0; round < 200; ++round) {
    const std::size_t count = 1 + random() % 8;
    std::vector<double> ready;
    for (std::size_t i = 0; i < count; ++i) ready.push_back(part(random) * 3);
    StepProfile profile = profile_of(ready, 3.1);
    profile.cores_are_busy = round % 2 == 0;
    std::vector<ForecastBucket> buckets;
    for (std::size_t i = count; i-- > 0;) {
      const double seconds = part(random);
      ForecastBucket bucket = bucket_of({i}, seconds, seconds * part(random));
      if (round % 3 == 0) bucket = with_thread(bucket, 0.1 * part(random), 0.1 * part(random));
      buckets.push_back(std::move(bucket));
    }
    EXPECT_NEAR(forecast_step(profile, buckets).step_s, plain_step_s(profile, buckets), 3e-4 * (2 + count)) << round;
  }
}

constexpr double kFrames = 1514.0 / 1448.0;

TEST(AllReduceCost, CountsWhatCrossesTheLink) {
  const LinkSpeed link{1e6, 0.01};  // 1 MB/s
  EngineCosts costs;
  costs.operation_s = 0.001;
  costs.message_cpu_s = 0.0001;
  costs.byte_cpu_s = 1e-9;
  const std::int64_t bytes = 12 << 20;
  const auto mebibytes = [](double count) { return count * (1 << 20) * kFrames / 1e6; };
  // Half of it to the other host, and half of it back.
  EXPECT_NEAR(all_reduce_cost(bytes, {2, 1}, link, costs).seconds, 0.021 + mebibytes(12), 1e-9);
  EXPECT_NEAR(all_reduce_cost(bytes, {4, 1}, link, costs).seconds, 0.021 + mebibytes(18), 1e-9);
  // 6 MiB to the other host in 3 messages of 2 MiB, and as much back.
  EXPECT_NEAR(all_reduce_cost(bytes, {2, 1}, link, costs).cpu_s, (12 << 20) * 1e-9 + 6 * 0.0001, 1e-12);
  // A small one is sent to all at once.
  EXPECT_NEAR(all_reduce_cost(1 << 16, {4, 1}, link, costs).seconds, 0.011 + mebibytes(3.0 / 16), 1e-9);
  // Two ranks of a host share its link, and each sends half: as many bytes as a single rank would send.
  EXPECT_NEAR(all_reduce_cost(4 << 20, {2, 2}, link, costs).seconds, 0.021 + mebibytes(4), 1e-9);
  EXPECT_EQ(all_reduce_cost(bytes, {1, 1}, link, costs).seconds, 0);
}

TEST(AllReduceCost, IsBoundByTheProcessorWhereTheLinkIsFaster) {
  EngineCosts costs;
  costs.byte_cpu_s = 1e-9;
  const OperationCost cost = all_reduce_cost(100 << 20, {2, 1}, {1e12, 0}, costs);
  EXPECT_NEAR(cost.seconds, (100 << 20) * 1e-9, 1e-6);
}

TEST(BucketCost, SendsLessWhereGradientsAreCompressed) {
  const LinkSpeed link{1e6, 0};
  const CompressionCosts hook{1e-9, 2e-9};
  const auto seconds = [&](Compression compression, ClusterShape shape) {
    const BucketCost cost = bucket_cost(8 << 20, compression, hook, shape, link, {});
    return cost.leaving.seconds + cost.coming.seconds;
  };
  const double whole = seconds(Compression::None, {2, 1});
  EXPECT_NEAR(seconds(Compression::Half, {2, 1}) / whole, 0.5, 1e-9);
  // 256 numbers in 260 bytes, in place of 1024.
  EXPECT_NEAR(seconds(Compression::Int8, {2, 1}) / whole, 260.0 / 1024, 1e-9);
  EXPECT_NEAR(seconds(Compression::Int8, {4, 1}) / seconds(Compression::None, {4, 1}), 260.0 / 1024, 1e-6);
  const BucketCost cost = bucket_cost(8 << 20, Compression::Int8, hook, {2, 1}, link, {});
  EXPECT_NEAR(cost.start_s, (8 << 20) * 1e-9, 1e-12);
  EXPECT_NEAR(cost.finish_s, (8 << 20) * 2e-9, 1e-12);
}

HostProfile host_profile() {
  HostProfile profile;
  profile.step = profile_of({}, 0.1);
  profile.step.forward_s = 0.05;
  profile.step.update_s = 0.01;
  for (int i = 10; i-- > 0;) profile.step.gradients.push_back({4 << 20, 0.01 * (i + 1)});
  profile.engine.operation_s = 2e-4;
  profile.host_step_s = 0.16;
  profile.hooks[Compression::Half] = {1e-10, 1e-10};
  return profile;
}

TEST(ForecastCluster, GrowsWithHostsAndFallsWithTheLink) {
  const HostProfile profile = host_profile();
  double before = profile.host_step_s;
  for (int hosts = 2; hosts <= 1024; hosts *= 2) {
    const double slow = forecast_cluster(profile, {hosts, 1}, {125e6, 5e-5}, {}).step_s;
    EXPECT_GE(slow, before) << hosts;
    EXPECT_GT(slow, forecast_cluster(profile, {hosts, 1}, {1250e6, 5e-5}, {}).step_s) << hosts;
    before = slow;
  }
  EXPECT_EQ(forecast_cluster(profile, {1, 1}, {125e6, 5e-5}, {}).step_s, profile.host_step_s);
}

// The ranks of this host take longer together than the sum of their parts.
HostProfile crowded_profile() {
  HostProfile profile = host_profile();
  profile.engine.local_byte_s = 1e-10;
  profile.host_step_s = 0.3;
  return profile;
}

TEST(ForecastCluster, OneHostAndSeveralFollowFromTheSameModel) {
  const HostProfile profile = crowded_profile();
  for (const LinkSpeed& link : {LinkSpeed{125e6, 5e-5}, LinkSpeed{12.5e9, 0}}) {
    double before = profile.host_step_s;
    EXPECT_EQ(forecast_cluster(profile, {1, 4}, link, best_plan(profile, {1, 4}, link)).step_s, before);
    for (int hosts = 2; hosts <= 8; hosts *= 2) {
      const double step_s = forecast_cluster(profile, {hosts, 4}, link, {}).step_s;
      EXPECT_GE(step_s, before) << hosts;
      EXPECT_GE(forecast_cluster(profile, {hosts, 4}, link, best_plan(profile, {hosts, 4}, link)).step_s,
                profile.host_step_s);
      before = step_s;
    }
  }
  // A network without costs changes nothing.
  HostProfile free = profile;
  free.engine = {0, 0, 0, profile.engine.local_byte_s};
  EXPECT_NEAR(forecast_cluster(free, {2, 4}, {1e18, 0}, {}).step_s, 0.3, 1e-3);
}

TEST(ForecastCluster, ItsBestPlanIsNotSlowerThanTheDefault) {
  for (const double operation_s : {1e-5, 2e-4, 2e-3}) {
    for (const double rate : {12.5e6, 125e6, 400e6, 1250e6, 3e9, 12.5e9}) {
      for (const int hosts : {2, 3, 4, 8, 64, 1024}) {
        HostProfile profile = host_profile();
        profile.engine.operation_s = operation_s;
        const LinkSpeed link{rate, 5e-5};
        const ClusterShape shape{hosts, 1};
        const double plain_s = forecast_cluster(profile, shape, link, {}).step_s;
        EXPECT_LE(forecast_cluster(profile, shape, link, best_plan(profile, shape, link)).step_s, plain_s);
        const SendingPlan buckets = best_plan(profile, shape, link, Compression::None);
        EXPECT_LE(forecast_cluster(profile, shape, link, buckets).step_s, plain_s) << rate << " " << hosts;
      }
    }
  }
}

TEST(ForecastCluster, ItsBestPlanIsNoneThatIsSlower) {
  const HostProfile profile = host_profile();
  for (const double rate : {12.5e6, 125e6, 12.5e9}) {
    const LinkSpeed link{rate, 5e-5};
    const double best = forecast_cluster(profile, {4, 1}, link, best_plan(profile, {4, 1}, link)).step_s;
    for (const Compression compression : {Compression::None, Compression::Half}) {
      for (const std::int64_t cap : {1 << 20, 8 << 20, 64 << 20}) {
        EXPECT_LE(best, 1.011 * forecast_cluster(profile, {4, 1}, link, {compression, {1 << 20, cap}}).step_s);
      }
    }
  }
  EXPECT_EQ(best_plan(profile, {4, 1}, {12.5e6, 5e-5}).compression, Compression::Half) << "a slow link";
  EXPECT_EQ(best_plan(profile, {4, 1}, {12.5e9, 5e-5}).compression, Compression::None) << "nothing to win";
  EXPECT_EQ(best_plan(profile, {4, 1}, {12.5e6, 5e-5}, Compression::None).compression, Compression::None);
}

}  // namespace
}  // namespace lockstep

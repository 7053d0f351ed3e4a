// Tests forecasts of steps whose ranks share out the update and gradients, with cases worked out by hand.
#include "bench/plan/stage_forecast.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "tools/models/gathered_units.h"

namespace lockstep {
namespace {

constexpr std::int64_t kOneMebibyte = 1 << 20;

// Forward 10 s, backward 4, update 1; one gradient, ready at 2.
HostProfile one_gradient(double host_step_s) {
  HostProfile profile;
  profile.step.forward_s = 10;
  profile.step.backward_s = 4;
  profile.step.update_s = 1;
  profile.step.gradients = {{kOneMebibyte, 2}};
  profile.host_step_s = host_step_s;
  return profile;
}

// Two hosts' all-reduce of one MiB takes this many seconds: each host sends half of it twice, in frames with headers.
LinkSpeed link_of(double seconds) { return {kOneMebibyte * 1514.0 / 1448.0 / seconds, 0}; }

TEST(ForecastStage, SharesOutTheUpdateAndSendsWeightsAfterIt) {
  const HostProfile profile = one_gradient(15);
  EXPECT_NEAR(forecast_stage(profile, {2, 1}, link_of(4), 0).step_s, 10 + 4 + 4 + 1, 1e-6);
  // Gradients take 2 s after backward, half of the update 0.5, weights 2.
  for (const int stage : {1, 2}) {
    EXPECT_NEAR(forecast_stage(profile, {2, 1}, link_of(4), stage).step_s, 10 + 4 + 2 + 0.5 + 2, 1e-6) << stage;
    EXPECT_NEAR(forecast_stage(profile, {2, 1}, link_of(1e-9), stage).step_s, 14.5, 1e-6) << "a link without costs";
  }
}

TEST(ForecastStage, OnOneHostSendsNothing) {
  HostProfile profile = one_gradient(16);
  profile.engine.local_byte_s = 1.0 / kOneMebibyte;
  EXPECT_EQ(forecast_stage(profile, {1, 4}, link_of(1), 0).step_s, 16) << "as measured";
  // A quarter of the update, and half of what the all-reduce takes in shared memory.
  EXPECT_NEAR(forecast_stage(profile, {1, 4}, link_of(1), 1).step_s, 14 + 0.25 + 0.5, 1e-9);
  EXPECT_NEAR(forecast_stage(profile, {1, 4}, link_of(1), 2).step_s, 14 + 0.25 + 0.5, 1e-9);
  profile.host_step_s = 20;  // the ranks take 4 s together that no part explains
  EXPECT_NEAR(forecast_stage(profile, {1, 4}, link_of(1), 1).step_s, 14 + 0.25 + 0.5 + 4, 1e-9);
}

TEST(ForecastStage, IsNeverShorterThanForwardAndBackward) {
  const HostProfile profile = one_gradient(3);
  EXPECT_GE(forecast_stage(profile, {64, 8}, link_of(1e-9), 1).step_s, 14);
  EXPECT_GE(forecast_stage(profile, {64, 8}, link_of(1e-9), 1).exposed_s, 0);
}

// Two MiB for each unit, which is a bucket of stage 2. Each takes 3 s in forward and 2 in backward; the update 1.
HostProfile units_of(std::size_t number) {
  HostProfile profile;
  const auto units = static_cast<double>(number);
  profile.step.forward_s = 3 * units;
  profile.step.backward_s = 2 * units;
  profile.step.update_s = 1;
  profile.host_step_s = 5 * units + 1;
  for (std::size_t i = 0; i < number; ++i) {
    profile.step.gradients.push_back({2 * kOneMebibyte, 2 * static_cast<double>(number - i)});
    profile.step.units.push_back(i + 1);
  }
  return profile;
}

// Two hosts' reduce-scatter or all-gather of a unit takes this many seconds.
LinkSpeed gathering_in(double seconds) { return link_of(seconds); }

// A message of a few bytes goes before each unit.
constexpr double kCalls = 1e-3;

TEST(ForecastStage, GathersAUnitWhileTheOneBeforeItComputes) {
  // s: gather 1 until 1, and 2 until 2. Forward of 1 until 4, when 3 is gathered, of 2 until 7, of 3 until 10.
  // Backward of 3 until 12; its gradients leave until 13, unit 1 comes until 14. Of 2 until 14; gradients until 15.
  // Of 1 until 16; gradients until 17. Half of the update.
  EXPECT_NEAR(forecast_stage(units_of(3), {2, 1}, gathering_in(1), 3).step_s, 17.5, kCalls);
}

TEST(ForecastStage, WaitsForUnitsOnASlowLink) {
  // s: gather 1 until 4, and 2 until 8. Forward of 1 until 7; 3 comes until 12. Forward of 2 from 8 until 11, of 3
  // until
  // 15. Backward of 3 until 17; gradients leave until 21; unit 1 comes until 25. Of 2 until 19; gradients until 29. Of
  // 1 from 25 until 27; gradients until 33.
  EXPECT_NEAR(forecast_stage(units_of(3), {2, 1}, gathering_in(4), 3).step_s, 33.5, kCalls);
}

TEST(ForecastStage, BeginsBackwardWithTheLastTwoUnits) {
  // s: forward of 1 from 1 to 4, of 2 until 7. Backward until 9, gradients until 10; until 11, gradients until 12.
  EXPECT_NEAR(forecast_stage(units_of(2), {2, 1}, gathering_in(1), 3).step_s, 12.5, kCalls);
}

TEST(ForecastStage, GathersWhatIsInNoUnitOnce) {
  HostProfile profile = units_of(1);
  profile.step.units = {0};
  // s: until 1, forward until 4, backward until 6, gradients until 7.
  EXPECT_NEAR(forecast_stage(profile, {2, 1}, gathering_in(1), 3).step_s, 7.5, kCalls);
  profile.step.units.clear();
  EXPECT_NEAR(forecast_stage(profile, {2, 1}, gathering_in(1), 3).step_s, 7.5, kCalls);
}

TEST(ForecastStage, ComputesSlowlyBesideOperationsThatKeepTheCoreBusy) {
  HostProfile profile = units_of(1);
  profile.step.units = {0};
  // 2 MiB sent in an all-reduce, so 1 in each half, which takes 2 s of the processor and nothing of the link. After it
  // comes forward, 3 s. Backward's gradients leave after it.
  profile.engine.byte_cpu_s = 2.0 / kOneMebibyte;
  EXPECT_NEAR(forecast_stage(profile, {2, 1}, gathering_in(1e-6), 3).step_s, 2 + 3 + 2 + 2 + 0.5, kCalls);
  HostProfile two = units_of(2);
  two.engine.byte_cpu_s = 2.0 / kOneMebibyte;
  // s: unit 1 until 2, unit 2 until 4; forward of 1 computes a quarter as fast until 4, half a second's work, and 2.5 s
  // more; of 2 until 9.5. Backward until 11.5; gradients leave until 13.5, beside which half a second's work is done;
  // until 15; gradients until 17.
  EXPECT_NEAR(forecast_stage(two, {2, 1}, gathering_in(1e-6), 3).step_s, 17.5, kCalls);
  two.step.cores_are_busy = false;
  // s: forward of 1 from 2 to 5, of 2 until 8; backward until 10; gradients until 12; until 12; gradients until 14.
  EXPECT_NEAR(forecast_stage(two, {2, 1}, gathering_in(1e-6), 3).step_s, 14.5, kCalls);
}

TEST(ForecastStage, OnOneHostGathersNothing) {
  for (const int ranks : {1, 4}) {
    EXPECT_EQ(forecast_stage(units_of(3), {1, ranks}, link_of(1), 3).step_s,
              forecast_stage(units_of(3), {1, ranks}, link_of(1), 2).step_s);
  }
}

TEST(GatheredUnits, TakeWholeBuckets) {
  // Parameters 0 and 1 are in unit 2, 2 and 3 in unit 1, 4 in none. Buckets: {4, 3}, {2, 1}, {0}.
  const GatheredUnits gathered({{{4, 3}, 10}, {{2, 1}, 200}, {{0}, 3000}}, {2, 2, 1, 1, 0});
  EXPECT_EQ(gathered.order(), (std::vector<std::size_t>{2, 1}));
  EXPECT_EQ(gathered.outside(), std::vector<std::int64_t>{10});
  EXPECT_EQ(gathered.beside(0, 0), (std::vector<std::int64_t>{200, 3000}));
  EXPECT_EQ(gathered.beside(1, 1), std::vector<std::int64_t>{200}) << "the other bucket is here with what is in none";
  EXPECT_EQ(gathered.beside(1, 0), std::vector<std::int64_t>{}) << "and this one with unit 2";
  EXPECT_EQ(gathered.most_bytes(), 3210);
}

TEST(GatheredUnits, AreTwoAtATime) {
  const GatheredUnits gathered({{{3}, 4}, {{2}, 30}, {{1}, 200}, {{0}, 1000}}, {0, 1, 2, 3});
  EXPECT_EQ(gathered.most_bytes(), 1000 + 200 + 30);
  EXPECT_EQ(GatheredUnits({{{1}, 4}, {{0}, 30}}, {}).most_bytes(), 34);
}

TEST(GatheredUnits, ArePartsIfForwardsReadCopies) {
  // As above; unit 2 has a copy of one of its two weights.
  const std::vector<std::int64_t> bytes{100, 200, 40, 60, 8};
  const std::vector<std::size_t> units{2, 2, 1, 1, 0};
  const std::vector<std::int64_t> parts = unit_parts(bytes, units, {true, false, false, false, false});
  EXPECT_EQ(parts, (std::vector<std::int64_t>{0, 0, 50 + 200}));
  const GatheredUnits gathered({{{4, 3}, 68}, {{2, 1}, 240}, {{0}, 100}}, units, parts);
  EXPECT_EQ(gathered.beside(0, 0), std::vector<std::int64_t>{250});
  EXPECT_EQ(gathered.beside(1, 0), std::vector<std::int64_t>{240}) << "unit 2 brings no bucket";
  EXPECT_EQ(gathered.most_bytes(), 68 + 250 + 240);
  EXPECT_TRUE(unit_parts(bytes, units, {}).empty());
}

TEST(ForecastStage, GathersHalfOfTheBytesInBf16) {
  HostProfile profile = units_of(1);
  profile.step.units = {0};
  profile.step.has_copy = {true};
  // s: until 0.5, forward until 3.5, backward until 5.5, gradients until 6.5.
  EXPECT_NEAR(forecast_stage(profile, {2, 1}, gathering_in(1), 3).step_s, 7, kCalls);
}

TEST(ForecastStage, KnowsNoOtherStage) {
  EXPECT_THROW(forecast_stage(one_gradient(15), {2, 1}, link_of(1), 4), Error);
  EXPECT_THROW(forecast_stage(one_gradient(15), {2, 1}, link_of(1), -1), Error);
}

}  // namespace
}  // namespace lockstep

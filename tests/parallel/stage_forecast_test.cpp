// Tests forecasts of steps whose ranks share out the update and gradients, with cases worked out by hand.
#include "lockstep/parallel/forecast/stage_forecast.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

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

// Two hosts' all-reduce of one MiB takes so many seconds: each host sends half of it twice, in frames with headers.
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

TEST(ForecastStage, KnowsNoStageOfWeights) {
  EXPECT_THROW(forecast_stage(one_gradient(15), {2, 1}, link_of(1), 3), Error);
  EXPECT_THROW(forecast_stage(one_gradient(15), {2, 1}, link_of(1), -1), Error);
}

}  // namespace
}  // namespace lockstep

#include "lockstep/base/spin.h"

#include <gtest/gtest.h>

#include <chrono>

namespace lockstep {
namespace {

int turns_of(const SpinPolicy& policy) {
  Spin spin(policy);
  int turns = 0;
  while (spin.again()) ++turns;
  return turns;
}

TEST(Spin, YieldsAFewTimes) {
  const int yields = turns_of({std::chrono::nanoseconds(0), 3});
  EXPECT_GE(yields, 1);
  EXPECT_LE(yields, 3);
}

// However many yields it may make: beside busy programs each of them lasts.
TEST(Spin, DoesNotYieldForLong) {
  constexpr int kForSeconds = 20'000'000;
  EXPECT_LT(turns_of({std::chrono::nanoseconds(0), kForSeconds}), kForSeconds);
}

}  // namespace
}  // namespace lockstep

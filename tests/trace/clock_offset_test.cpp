#include "lockstep/trace/clock_offset.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "tests/support/pretended_hosts.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

// A clock that is `offset_ns` behind the reference, and messages that take so long there and back.
RoundTrip simulated_trip(std::int64_t at_ns, std::int64_t offset_ns, std::int64_t there_ns, std::int64_t back_ns) {
  return {at_ns, at_ns + there_ns + offset_ns, at_ns + there_ns + back_ns};
}

TEST(ClockOffset, IsExactIfBothWaysAreEqual) {
  const ClockOffset offset = estimate_offset({simulated_trip(1'000, 5'000'000, 200, 200)});
  EXPECT_EQ(offset.offset_ns, 5'000'000);
  EXPECT_EQ(offset.error_ns, 200);
}

TEST(ClockOffset, TakesTheQuickestTrip) {
  const std::int64_t ahead = -3'600'000'000'000;
  const ClockOffset offset =
      estimate_offset({simulated_trip(0, ahead, 90'000, 1'000), simulated_trip(1e6, ahead, 50, 50),
                       simulated_trip(2e6, ahead, 10, 400'000)});
  EXPECT_EQ(offset.offset_ns, ahead);
  EXPECT_EQ(offset.error_ns, 50);
}

TEST(ClockOffset, IsWithinItsErrorWhateverTheWaysTake) {
  std::mt19937_64 random(7);
  std::uniform_int_distribution<std::int64_t> offsets(-1'000'000'000'000, 1'000'000'000'000), delays(0, 3'000'000);
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t truth = offsets(random);
    std::vector<RoundTrip> trips;
    for (int trip = 0; trip < 16; ++trip)
      trips.push_back(simulated_trip(trip * 10'000'000, truth, delays(random), delays(random)));
    const ClockOffset offset = estimate_offset(trips);
    EXPECT_LE(std::abs(offset.offset_ns - truth), offset.error_ns);
  }
}

// Two hosts of two ranks each; they have one clock, so the true offset is 0.
TEST(ClockOffset, IsFoundByTheFirstRankOfEachHost) {
  std::vector<ClockOffset> offsets(4);
  run_ranks_as_threads(4, [&](const Membership& membership) {
    offsets[static_cast<std::size_t>(membership.rank)] =
        align_clock(on_two_hosts(membership), "clock", Deadline::after(std::chrono::seconds(60)));
  });
  EXPECT_EQ(offsets[0].error_ns, 0);
  EXPECT_EQ(offsets[2].error_ns, 0);
  EXPECT_GT(offsets[1].error_ns, 0);
  EXPECT_LE(std::abs(offsets[1].offset_ns), offsets[1].error_ns);
  EXPECT_EQ(offsets[3].offset_ns, offsets[1].offset_ns);
  EXPECT_EQ(offsets[3].error_ns, offsets[1].error_ns);
}

}  // namespace
}  // namespace lockstep

#include "lockstep/base/deadline.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using std::chrono::milliseconds;

TEST(Deadline, ZeroHasPassed) {
  const Deadline deadline = Deadline::after(milliseconds(0));
  EXPECT_TRUE(deadline.passed());
  EXPECT_EQ(deadline.poll_timeout_ms(), 0);
}

TEST(Deadline, LaterHasNotPassed) {
  const Deadline deadline = Deadline::after(milliseconds(3600000));
  EXPECT_FALSE(deadline.passed());
  EXPECT_GT(deadline.remaining(), milliseconds(3500000));
  EXPECT_LE(deadline.remaining(), milliseconds(3600000));
}

TEST(Deadline, NegativeAndHugeNeverPass) {
  EXPECT_TRUE(Deadline::after(milliseconds(-1)).is_never());
  EXPECT_TRUE(Deadline::after(milliseconds::max()).is_never());
  EXPECT_FALSE(Deadline::never().passed());
  EXPECT_GT(Deadline::never().poll_timeout_ms(), 0);
}

TEST(Deadline, AnExtensionMovesAllCopiesOn) {
  const auto extension = std::make_shared<DeadlineExtension>();
  const Deadline deadline = Deadline::after(milliseconds(0), extension);
  const Deadline copy = deadline;
  const Deadline later = deadline.later_by(std::chrono::hours(1));
  EXPECT_TRUE(copy.passed());
  EXPECT_FALSE(later.passed());
  extension->extend_until(Deadline::Clock::now() + std::chrono::hours(2));
  EXPECT_FALSE(deadline.passed());
  EXPECT_FALSE(copy.passed());
  EXPECT_GT(copy.remaining(), std::chrono::minutes(100));
  EXPECT_GT(later.remaining(), std::chrono::minutes(160));
  extension->extend_until(Deadline::Clock::now());  // an earlier time changes nothing
  EXPECT_FALSE(copy.passed());
}

TEST(Deadline, AnExtensionDoesNotShorten) {
  const auto extension = std::make_shared<DeadlineExtension>();
  const Deadline deadline = Deadline::after(std::chrono::hours(2), extension);
  extension->extend_until(Deadline::Clock::now() + std::chrono::hours(1));
  EXPECT_GT(deadline.remaining(), std::chrono::minutes(100));
  EXPECT_TRUE(Deadline::after(milliseconds(-1), extension).is_never());
}

}  // namespace
}  // namespace lockstep

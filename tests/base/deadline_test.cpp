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

}  // namespace
}  // namespace lockstep

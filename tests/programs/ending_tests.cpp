#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

// Tests that end as tests can: tests/check_failure_list.py runs them.

TEST(Passes, First) {}
TEST(Passes, Second) {}
TEST(Skips, Always) { GTEST_SKIP() << "no such thing here"; }
TEST(Fails, Twice) {
  EXPECT_EQ(1 + 1, 3) << "the first reason";
  EXPECT_TRUE(false) << "the second reason";
}
TEST(IsKilled, BySignal) { std::raise(SIGKILL); }
TEST(ExitsLate, AfterAllTests) {
  std::atexit([] { std::_Exit(5); });
}

#include "lockstep/base/slow_notice.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep {
namespace {

using std::chrono::seconds;

// The seconds at which a wait is logged, checked each second.
std::vector<int> told(std::chrono::milliseconds timeout, int until_s) {
  SlowNotice notice(timeout);
  std::vector<int> times;
  for (int second = 0; second <= until_s; ++second) {
    if (notice.due(seconds(second))) times.push_back(second);
  }
  return times;
}

TEST(SlowNoticeTest, AfterAMinuteThenEverMoreRarely) {
  EXPECT_EQ(told(std::chrono::minutes(30), 1800), (std::vector<int>{60, 120, 240, 480, 960}));
}

TEST(SlowNoticeTest, SoonerWhereTheTimeIsShort) { EXPECT_EQ(told(seconds(10), 10), (std::vector<int>{5, 10})); }

TEST(SlowNoticeTest, ALongPauseIsToldOnce) {
  SlowNotice notice(std::chrono::minutes(30));
  EXPECT_TRUE(notice.due(seconds(500)));
  EXPECT_FALSE(notice.due(seconds(501)));
  EXPECT_TRUE(notice.due(seconds(960)));
}

}  // namespace
}  // namespace lockstep

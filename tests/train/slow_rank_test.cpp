#include "lockstep/train/checks/slow_rank.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(SlowRank, IsTheOneThatTheOthersWaitFor) {
  const auto slow = slow_rank_of({5, 1, 4}, 10);  // 4 s and 3 s more than rank 1
  ASSERT_TRUE(slow);
  EXPECT_EQ(slow->rank, 1);
  EXPECT_DOUBLE_EQ(slow->share, 0.35);
}

TEST(SlowRank, IsNotNamedForWhatAllWait) {
  EXPECT_FALSE(slow_rank_of({6, 6, 6}, 10));
  EXPECT_FALSE(slow_rank_of({6, 5.1}, 10));  // below the threshold
  EXPECT_TRUE(slow_rank_of({6, 5}, 10));
  EXPECT_FALSE(slow_rank_of({6}, 10));
  EXPECT_FALSE(slow_rank_of({}, 10));
  EXPECT_FALSE(slow_rank_of({1, 0}, 0));
  EXPECT_FALSE(slow_rank_of({0.5, 0.1}, 0.9));  // a training too short to say anything
}

}  // namespace
}  // namespace lockstep

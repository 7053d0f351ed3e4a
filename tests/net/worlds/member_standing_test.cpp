#include "lockstep/net/worlds/member_standing.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(StandingOf, TheLowestOfTheNewestIsTheSource) {
  const Standing standing = standing_of({{3, false}, {4, false}, {-1, false}, {4, true}});
  EXPECT_EQ(standing.newest, 4);
  EXPECT_EQ(standing.source, 1);
  EXPECT_FALSE(standing.all_equal);
  EXPECT_FALSE(standing.has_finished);
}

TEST(StandingOf, EqualMembersNeedNoState) {
  const Standing standing = standing_of({{7, true}, {7, false}});
  EXPECT_TRUE(standing.all_equal);
  EXPECT_EQ(standing.source, 0);
  EXPECT_TRUE(standing.has_finished);
}

TEST(StandingOf, NoMemberHasAState) { EXPECT_LT(standing_of({{-1, false}, {-1, false}}).newest, 0); }

}  // namespace
}  // namespace lockstep

#include "lockstep/net/server/lost_list.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep {
namespace {

std::vector<std::string> causes(const std::vector<LostRank>& lost) {
  std::vector<std::string> texts;
  for (const LostRank& rank : lost) texts.push_back(std::to_string(rank.rank) + " " + rank.cause);
  return texts;
}

using Texts = std::vector<std::string>;

TEST(LostListTest, KeepsTheOrderAndTheFirstCause) {
  LostList list;
  list.add(0, 0, {3, "h", "closed"}, false);
  list.add(0, 0, {1, "h", "closed"}, false);
  list.add(0, 0, {3, "h", "later"}, false);
  EXPECT_EQ(causes(list.of(0)), (Texts{"3 closed", "1 closed"}));
}

TEST(LostListTest, SilentRanksComeBackButClosedOnesDoNot) {
  LostList list;
  list.add(0, 0, {1, "h", "silent", true}, false);
  list.add(0, 0, {2, "h", "silent", true}, false);
  list.add(0, 0, {2, "h", "closed"}, false);
  list.heard_again(0, 0, 1);
  list.heard_again(0, 0, 2);
  EXPECT_EQ(causes(list.of(0)), (Texts{"2 closed"}));
}

TEST(LostListTest, TheLaunchersCauseWinsWheneverItComes) {
  LostList before;
  before.add(0, LostList::kAnyRound, {1, "h", "signal 9"}, true);
  before.add(0, 0, {1, "h", "closed"}, false);
  EXPECT_EQ(causes(before.of(0, 0)), (Texts{"1 signal 9"}));
  LostList after;
  after.add(0, 0, {1, "h", "closed"}, false);
  after.add(0, LostList::kAnyRound, {1, "h", "signal 9"}, true);
  EXPECT_EQ(causes(after.of(0, 0)), (Texts{"1 signal 9"}));
}

TEST(LostListTest, RoundsAndGenerationsAreApart) {
  LostList list;
  list.add(0, 0, {1, "h", "a"}, false);
  list.add(0, 1, {1, "h", "b"}, false);
  list.add(1, 0, {1, "h", "c"}, false);
  EXPECT_EQ(causes(list.of(0, 1)), (Texts{"1 b"}));
  EXPECT_EQ(causes(list.of(1)), (Texts{"1 c"}));
  list.replaced(0, 1, 1);
  EXPECT_EQ(causes(list.of(0)), (Texts{"1 a"}));
}

}  // namespace
}  // namespace lockstep

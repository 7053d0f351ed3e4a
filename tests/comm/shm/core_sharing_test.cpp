// How ranks count the cores that each has for itself, on machines of any size.
#include "lockstep/comm/shm/core_sharing.h"

#include <gtest/gtest.h>

#include <climits>

#include "lockstep/base/processor/topology.h"

namespace lockstep::shm {
namespace {

constexpr int kWordsFor1024Cores = 16;
constexpr int kWordsFor2048Cores = 32;

// Two ranks with these cores, on one block, as two processes see it.
class TwoRanks {
 public:
  TwoRanks(const std::vector<int>& cores_of_first, const std::vector<int>& cores_of_second,
           int words = kWordsFor2048Cores)
      : layout_(2, words) {
    publish_cores(first, cores_of_first);
    publish_cores(second, cores_of_second);
    share_cores(first, INT_MAX);
    share_cores(second, INT_MAX);
  }

 private:
  const Layout layout_;
  const std::shared_ptr<Mapping> block_ = Mapping::anonymous(layout_.total_bytes());

 public:
  Group first{block_, layout_, 0, {}, nullptr};
  Group second{block_, layout_, 1, {}, nullptr};
};

TEST(CoreSharing, CountsCoresBeyondTheFirst1024) {
  const TwoRanks ranks({1500, 1501, 1502}, {3, 2047});
  EXPECT_EQ(ranks.first.cores(), 3);
  EXPECT_EQ(ranks.second.cores(), 2);
  EXPECT_FALSE(ranks.first.ranks_share_cores());
}

// The masks of both ranks are side by side, so a bit behind the first would be one of the second.
TEST(CoreSharing, NeverWritesIntoAnotherRanksMask) {
  const TwoRanks ranks({1500, 1501}, {3}, kWordsFor1024Cores);
  EXPECT_EQ(ranks.first.cores(), 0);
  for (int word = 0; word < kWordsFor1024Cores; ++word) {
    EXPECT_EQ(ranks.second.core_mask(1)[word].load(), word == 0 ? 8U : 0U) << word;
  }
}

TEST(CoreSharing, DividesCoresThatBothRanksUse) {
  const TwoRanks apart({1023, 1024, 1025, 2047}, {1023, 1024, 1025, 2047});
  EXPECT_EQ(apart.first.cores(), 2);
  EXPECT_EQ(apart.second.cores(), 2);
  const TwoRanks together({1024}, {1024});
  EXPECT_EQ(together.first.cores(), 0);
  EXPECT_TRUE(together.first.ranks_share_cores());
}

TEST(CoreSharing, HasRoomForEveryCoreOfThisMachine) { EXPECT_GT(words_of_core_mask() * 64, affinity_cores().back()); }

}  // namespace
}  // namespace lockstep::shm

// How ranks count the cores that each has for itself, on machines of any size.
#include "lockstep/comm/shm/core_sharing.h"

#include <gtest/gtest.h>

#include <climits>

#include "lockstep/base/processor/topology.h"

namespace lockstep::shm {
namespace {

constexpr int kWordsFor2048Cores = 32;

// Two ranks with these cores, on one block, as two processes see it.
class TwoRanks {
 public:
  TwoRanks(const std::vector<int>& cores_of_first, const std::vector<int>& cores_of_second) {
    publish_cores(first, cores_of_first);
    publish_cores(second, cores_of_second);
    share_cores(first, INT_MAX);
    share_cores(second, INT_MAX);
  }

 private:
  const Layout layout_{2, kWordsFor2048Cores};
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

#include "lockstep/launch/elastic/host_standing.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

/// Two processes, 2 and 3, of a generation that begins, or that joins ranks that run.
HostStanding standing_of_two(bool joins) {
  Generation generation;
  generation.first_member = joins ? 2 : -1;
  generation.next_member = 4;
  HostStanding standing;
  standing.begin(generation, 2, 2);
  return standing;
}

TEST(HostStanding, NeedsTheWordOfAllRanksThatStartTogetherAndOfOneThatJoins) {
  const TemporaryFolder folder;
  const std::string first = folder / "first";
  for (const bool joins : {false, true}) {
    HostStanding standing = standing_of_two(joins);
    standing.await_survival({first, folder / "second"});
    EXPECT_EQ(standing.now().has_no_ranks, joins);
    std::ofstream{first};
    EXPECT_EQ(standing.now().survive, joins) << "one of two has announced it";
    EXPECT_FALSE(standing.now().has_no_ranks);
    std::ofstream{folder / "second"};
    EXPECT_TRUE(standing.now().survive);
    std::filesystem::remove(first);
    std::filesystem::remove(folder / "second");
  }
}

TEST(HostStanding, CountsNoAnnouncementOfRanksThatAreLost) {
  const TemporaryFolder folder;
  const std::string file = folder / "rank";
  std::ofstream{file};
  HostStanding standing = standing_of_two(false);
  standing.await_survival({file});
  standing.lose_ranks();
  EXPECT_TRUE(standing.now().has_no_ranks);
}

TEST(HostStanding, KnowsItsProcessesAndWhatItHasAskedFor) {
  HostStanding standing = standing_of_two(false);
  EXPECT_EQ(standing.ask_for_member(), 1);
  EXPECT_EQ(standing.ask_for_member(), 2);
  standing.take_grant(7);
  standing.lose_member(2);
  EXPECT_EQ(standing.now().members, (std::vector<int>{3, 7}));
  EXPECT_EQ(standing.now().next_member, 8);
  EXPECT_EQ(standing.now().asked, 1);
  standing.take_grant(-1);
  EXPECT_EQ(standing.now().asked, 0);
  EXPECT_EQ(standing.now().members.size(), 2U) << "no restart was left";
}

}  // namespace
}  // namespace lockstep

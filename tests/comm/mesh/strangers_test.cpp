// Engines that take connections without a proof say so, once, where strangers could connect.
#include "lockstep/comm/mesh/bring_up/strangers.h"

#include <gtest/gtest.h>

#include <string>

#include "lockstep/detail/net/membership.h"

namespace lockstep {
namespace {

Membership two_ranks(int rank, const std::string& network_of_rank_1) {
  Membership members;
  members.rank = rank;
  members.world_size = 2;
  members.peers.resize(2);
  members.peers[0].host_id = "boot/net:[1]/pid:[1]";
  members.peers[1].host_id = "boot/" + network_of_rank_1 + "/pid:[2]";
  return members;
}

// What is logged when two groups over `engine` form.
std::string logged(const Membership& members, const std::string& engine) {
  ::testing::internal::CaptureStderr();
  warn_of_strangers(members, engine, "its ports");
  warn_of_strangers(members, engine, "its ports");
  return ::testing::internal::GetCapturedStderr();
}

TEST(WarnOfStrangers, SaysOnceBetweenHostsWhatAnEngineLeavesOpen) {
  const std::string text = logged(two_ranks(0, "net:[2]"), "mpi of this test");
  const std::string warning = "engine mpi of this test does not check the job's secret";
  const std::size_t first = text.find(warning);
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_NE(text.find("anyone who can reach its ports"), std::string::npos) << text;
  EXPECT_EQ(text.find(warning, first + 1), std::string::npos) << text;
}

TEST(WarnOfStrangers, IsSilentOnOneNetworkAndOnOtherRanks) {
  EXPECT_EQ(logged(two_ranks(0, "net:[1]"), "on one network"), "");
  EXPECT_EQ(logged(two_ranks(1, "net:[2]"), "on rank 1"), "");
}

}  // namespace
}  // namespace lockstep

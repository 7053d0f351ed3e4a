#include "lockstep/comm/hierarchical/host_layout.h"

#include <gtest/gtest.h>

#include "lockstep/comm/factory.h"

namespace lockstep {
namespace {

using Ranks = std::vector<int>;

// One letter for each rank names its host.
Membership ranks_on(const std::string& hosts, int rank = 0) {
  Membership membership;
  membership.rank = rank;
  membership.world_size = static_cast<int>(hosts.size());
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    Peer peer;
    peer.global_rank = static_cast<int>(i);
    peer.host_id = hosts.substr(i, 1);
    peer.pid = static_cast<pid_t>(100 + i);
    membership.peers.push_back(peer);
  }
  return membership;
}

TEST(HostLayout, LanesJoinEqualPlaces) {
  const HostLayout layout(ranks_on("aabbcc", 3));
  EXPECT_EQ(layout.hosts, (std::vector<Ranks>{{0, 1}, {2, 3}, {4, 5}}));
  EXPECT_EQ(layout.host, 1);
  EXPECT_EQ(layout.place, 1);
  EXPECT_EQ(layout.lanes, 2);
  EXPECT_TRUE(layout.equal);
  EXPECT_EQ(layout.lane(0), (Ranks{0, 2, 4}));
  EXPECT_EQ(layout.lane(1), (Ranks{1, 3, 5}));
}

TEST(HostLayout, RanksMayAlternate) {
  const HostLayout layout(ranks_on("abba", 2));
  EXPECT_EQ(layout.hosts, (std::vector<Ranks>{{0, 3}, {1, 2}}));
  EXPECT_EQ(layout.host, 1);
  EXPECT_EQ(layout.place, 1);
  EXPECT_EQ(layout.lane(1), (Ranks{3, 2}));
  EXPECT_EQ(layout.host_of(3), 0);
  EXPECT_EQ(layout.place_of(3), 1);
}

TEST(HostLayout, TheSmallestHostGivesTheNumberOfLanes) {
  const HostLayout layout(ranks_on("aaabbcccc"));
  EXPECT_EQ(layout.lanes, 2);
  EXPECT_FALSE(layout.equal);
  EXPECT_EQ(layout.lane(1), (Ranks{1, 4, 6}));
}

TEST(HostLayout, IsChosenWhereHostsHaveSeveralRanks) {
  EXPECT_EQ(default_engine(ranks_on("aabb")), "hierarchical");
  EXPECT_EQ(default_engine(ranks_on("aab")), "hierarchical");
  EXPECT_EQ(default_engine(ranks_on("ab")), "tcp");
  EXPECT_EQ(default_engine(ranks_on("aa")), "shm");
}

}  // namespace
}  // namespace lockstep

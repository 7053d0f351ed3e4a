#include "lockstep/net/server/roster.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep {
namespace {

using Kind = JoinOutcome::Kind;

JoinRequest join_request(int rank, int world_size, pid_t pid = 100, std::int64_t generation = 0) {
  return {generation, world_size, Peer{rank, "host-" + std::to_string(rank), "id", pid, -1}};
}

std::vector<ConnectionId> connections(const JoinOutcome& outcome) {
  std::vector<ConnectionId> ids;
  for (const RequestId& id : outcome.to) ids.push_back(id.connection);
  return ids;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(RosterTest, CompletesWithTheLastRankInTheOrderOfRanks) {
  Roster roster;
  EXPECT_EQ(roster.join({10, 1}, join_request(2, 3)).kind, Kind::Waiting);
  EXPECT_EQ(roster.join({11, 1}, join_request(0, 3)).kind, Kind::Waiting);
  const JoinOutcome outcome = roster.join({12, 1}, join_request(1, 3));
  EXPECT_EQ(outcome.kind, Kind::Complete);
  EXPECT_EQ(connections(outcome), (std::vector<ConnectionId>{11, 12, 10}));
  EXPECT_EQ(outcome.peers.at(2).host, "host-2");
  EXPECT_EQ(outcome.round, 0);
}

TEST(RosterTest, TwoProcessesOfOneRankFailAllThatWait) {
  Roster roster;
  roster.join({10, 1}, join_request(0, 3, 500));
  roster.join({11, 1}, join_request(1, 3, 501));
  const JoinOutcome outcome = roster.join({12, 1}, join_request(1, 3, 502));
  EXPECT_EQ(outcome.kind, Kind::Failed);
  EXPECT_EQ(connections(outcome), (std::vector<ConnectionId>{10, 11, 12}));
  EXPECT_TRUE(contains(outcome.what, "rank 1") && contains(outcome.what, "501") && contains(outcome.what, "502") &&
              contains(outcome.what, "host-1"))
      << outcome.what;
  // A rank that arrives later is told too, once; after that all may try again.
  EXPECT_TRUE(roster.has_ranks_to_tell());
  const JoinOutcome late = roster.join({13, 1}, join_request(2, 3));
  EXPECT_EQ(late.kind, Kind::Failed);
  EXPECT_EQ(late.what, outcome.what);
  EXPECT_EQ(connections(late), (std::vector<ConnectionId>{13}));
  EXPECT_FALSE(roster.has_ranks_to_tell());
  for (int rank = 0; rank < 2; ++rank)
    EXPECT_EQ(roster.join({20U + rank, 1}, join_request(rank, 3)).kind, Kind::Waiting);
  EXPECT_EQ(roster.join({22, 1}, join_request(2, 3)).kind, Kind::Complete);
}

TEST(RosterTest, WhoWasToldOfAFailureMayTryAgainBeforeTheOthersAre) {
  Roster roster;
  roster.join({10, 1}, join_request(0, 3));
  roster.join({11, 1}, join_request(0, 3));
  EXPECT_EQ(roster.join({12, 1}, join_request(0, 3)).kind, Kind::Waiting);
  EXPECT_EQ(roster.join({13, 1}, join_request(1, 3)).kind, Kind::Failed);
  EXPECT_EQ(roster.join({14, 1}, join_request(1, 3)).kind, Kind::Waiting);
  EXPECT_EQ(roster.join({15, 1}, join_request(2, 3)).kind, Kind::Failed);
  EXPECT_EQ(roster.join({16, 1}, join_request(2, 3)).kind, Kind::Complete);
}

TEST(RosterTest, ACompleteJobIsNotDisturbedByASecondClaim) {
  Roster roster;
  roster.join({10, 1}, join_request(0, 2));
  roster.join({11, 1}, join_request(1, 2));
  const JoinOutcome outcome = roster.join({12, 1}, join_request(1, 2, 777));
  EXPECT_EQ(outcome.kind, Kind::Failed);
  EXPECT_EQ(connections(outcome), (std::vector<ConnectionId>{12}));
  EXPECT_NE(roster.find(11), nullptr);
}

TEST(RosterTest, DifferentWorldSizesFailAll) {
  Roster roster;
  roster.join({10, 1}, join_request(0, 2));
  const JoinOutcome outcome = roster.join({11, 1}, join_request(1, 4));
  EXPECT_EQ(outcome.kind, Kind::Failed);
  EXPECT_EQ(outcome.to.size(), 2U);
  EXPECT_TRUE(contains(outcome.what, "host-0) says 2") && contains(outcome.what, "host-1) says 4")) << outcome.what;
}

TEST(RosterTest, RanksOutOfRangeFailAll) {
  for (const int rank : {-1, 2, 1 << 30}) {
    Roster roster;
    roster.join({10, 1}, join_request(0, 2));
    const JoinOutcome outcome = roster.join({11, 1}, join_request(rank, 2));
    EXPECT_EQ(outcome.kind, Kind::Failed);
    EXPECT_EQ(outcome.to.size(), 2U);
  }
  for (const int world_size : {0, -5, 1 << 30}) {
    Roster roster;
    EXPECT_EQ(roster.join({10, 1}, join_request(0, world_size)).kind, Kind::Failed);
  }
}

TEST(RosterTest, GivingUpNamesTheMissingRanksToAll) {
  Roster roster;
  roster.join({10, 7}, join_request(0, 5));
  roster.join({11, 1}, join_request(3, 5));
  EXPECT_EQ(roster.give_up({10, 99}).kind, Kind::Waiting);  // another request
  const JoinOutcome outcome = roster.give_up({10, 7});
  EXPECT_EQ(outcome.kind, Kind::TimedOut);
  EXPECT_EQ(connections(outcome), (std::vector<ConnectionId>{10, 11}));
  EXPECT_TRUE(contains(outcome.what, "ranks 1, 2, 4 did not arrive: 2 of 5")) << outcome.what;
}

TEST(RosterTest, ARankThatLeftMayBeReplacedWhileOthersWait) {
  Roster roster;
  roster.join({10, 1}, join_request(0, 2));
  roster.join({11, 1}, join_request(1, 2, 501));
  Roster other;
  other.join({10, 1}, join_request(0, 3));
  other.join({11, 1}, join_request(1, 3, 501));
  EXPECT_TRUE(other.remove(11).has_value());
  EXPECT_EQ(other.join({12, 1}, join_request(1, 3, 502)).kind, Kind::Waiting);
  const JoinOutcome outcome = other.join({13, 1}, join_request(2, 3));
  EXPECT_EQ(outcome.kind, Kind::Complete);
  EXPECT_EQ(outcome.peers.at(1).pid, 502);
}

TEST(RosterTest, RoundsAndGenerationsAreApart) {
  Roster roster;
  roster.join({10, 1}, join_request(0, 2));
  roster.join({11, 1}, join_request(1, 2));
  // Restarted ranks do not meet, or conflict with, earlier ones.
  EXPECT_EQ(roster.join({20, 1}, join_request(0, 2, 900, 1)).kind, Kind::Waiting);
  EXPECT_EQ(roster.join({21, 1}, join_request(1, 2, 901, 1)).round, 0);
  // The first generation leaves its group and forms another.
  roster.remove(10);
  EXPECT_EQ(roster.join({12, 1}, join_request(0, 2)).kind, Kind::Waiting);
  roster.remove(11);
  const JoinOutcome again = roster.join({13, 1}, join_request(1, 2));
  EXPECT_EQ(again.kind, Kind::Complete);
  EXPECT_EQ(again.round, 1);
}

TEST(RosterTest, AProcessEntersTheNewestRoundThatIsComplete) {
  Roster roster;
  const Peer new_one{2, "host-9", "id", 900, 0};
  EXPECT_EQ(roster.enter({30, 1}, 0, new_one).kind, Kind::Failed) << "the ranks have not met";
  roster.join({10, 1}, join_request(0, 2));
  EXPECT_EQ(roster.enter({30, 1}, 0, new_one).kind, Kind::Failed) << "not all ranks are there";
  roster.join({11, 1}, join_request(1, 2));
  EXPECT_EQ(roster.enter({30, 1}, 0, {1, "host-9", "id", 900, 0}).kind, Kind::Failed) << "rank 1 has a process";
  const JoinOutcome outcome = roster.enter({30, 1}, 0, new_one);
  EXPECT_EQ(outcome.kind, Kind::Complete);
  EXPECT_EQ(outcome.round, 0);
  EXPECT_EQ(connections(outcome), (std::vector<ConnectionId>{30}));
  EXPECT_EQ(roster.enter({31, 1}, 0, new_one).kind, Kind::Failed) << "the number is taken";
  const auto gone = roster.remove(30);
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->peer.global_rank, 2);
  EXPECT_EQ(gone->round, 0);
}

TEST(Roster, LetsProcessesEnterWhoseGenerationHasMetElsewhere) {
  Roster roster;
  roster.resume(3);
  EXPECT_EQ(roster.enter({10, 1}, 3, {7, "host-a", "id", 900, 0}).round, 0);
  EXPECT_EQ(roster.enter({11, 1}, 3, {8, "host-a", "id", 901, 0}).kind, JoinOutcome::Kind::Complete);
  EXPECT_EQ(roster.enter({12, 1}, 2, {9, "host-a", "id", 902, 0}).kind, JoinOutcome::Kind::Failed);
}

}  // namespace
}  // namespace lockstep

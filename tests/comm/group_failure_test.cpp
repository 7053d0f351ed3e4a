#include "lockstep/comm/failure/group_failure.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/net/timeout_texts.h"

namespace lockstep {
namespace {

using Kind = GroupFailure::Kind;

Membership two_hosts() {
  Membership membership;
  membership.world_size = 3;
  membership.peers = {{0, "alpha", "a", 11, 0}, {5, "beta", "b", 12, 0}, {2, "beta", "b", 12, 1}};
  return membership;
}

const NamedRank kRank{"rank 3 on alpha", 7};

TEST(NamedRank, HasHostAndProcessAndTheNumberInTheJob) {
  const Membership membership = two_hosts();
  EXPECT_EQ(name_of(membership, 0), "rank 0 on alpha (process 11)");
  EXPECT_EQ(name_of(membership, 1), "rank 1 (5 of the job) on beta") << "two ranks share the process";
  EXPECT_EQ(name_of(membership, 9), "rank 9");
  EXPECT_EQ(named_rank(membership, 1).in_job, 5);
  EXPECT_EQ(named_rank(membership, 9).in_job, -1);
}

struct FailureWords {
  const char* name;
  GroupFailure failure;
  Kind kind;
  int blamed;
  const char* happened;
  friend std::ostream& operator<<(std::ostream& out, const FailureWords& c) { return out << c.name; }
};
class WordsOfAGroupFailure : public ::testing::TestWithParam<FailureWords> {};

TEST_P(WordsOfAGroupFailure, AndItsData) {
  const GroupFailure& failure = GetParam().failure;
  EXPECT_EQ(failure.happened, GetParam().happened);
  EXPECT_EQ(failure.kind, GetParam().kind);
  EXPECT_EQ(failure.blamed, GetParam().blamed);
  EXPECT_FALSE(failure.fix.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Table, WordsOfAGroupFailure,
    ::testing::Values(
        FailureWords{
            "lost", GroupFailure::rank_lost("barrier #4", kRank, "its process ended", "last seen entering barrier #3"),
            Kind::Lost, 7, "barrier #4 lost rank 3 on alpha: its process ended (last seen entering barrier #3)"},
        FailureWords{"lost_between_operations", GroupFailure::rank_lost("", kRank, "connection closed"), Kind::Lost, 7,
                     "lost rank 3 on alpha: connection closed"},
        FailureWords{"connection_lost", GroupFailure::connection_lost("barrier #4", {kRank, {"rank 1 on beta", 1}}),
                     Kind::Lost, 7, "barrier #4 lost the connection to rank 3 on alpha, rank 1 on beta"},
        FailureWords{"engine_failed", GroupFailure::engine_failed(kRank, "NCCL failed: unhandled system error", "look"),
                     Kind::Aborted, 7, "rank 3 on alpha ended the group: NCCL failed: unhandled system error"},
        FailureWords{"engine_lost", GroupFailure::engine_lost(kRank, "NCCL failed: remote process exited", "look"),
                     Kind::Lost, -1,
                     "rank 3 on alpha lost its connection to another rank: NCCL failed: remote process exited"},
        FailureWords{"left", GroupFailure::rank_left("barrier #4", kRank, kNothingEntered), Kind::Left, 7,
                     "rank 3 on alpha left the group before barrier #4 (it has not entered any operation yet)"},
        FailureWords{
            "late",
            GroupFailure::timed_out("barrier #4", 1.25,
                                    {{kRank, "has not arrived", "last seen entering barrier #3"},
                                     {{"rank 1 on beta", 1}, "has not arrived", ""}},
                                    true),
            Kind::Timeout, 7,
            "barrier #4 timed out after 1.2 s: rank 3 on alpha has not arrived (last seen entering barrier #3); rank 1 "
            "on beta has not arrived"},
        FailureWords{"slow_network", GroupFailure::timed_out("barrier #4", 3, {}, true), Kind::Timeout, -1,
                     "barrier #4 timed out after 3.0 s: all ranks have arrived; the network is slow or interrupted"},
        FailureWords{"disagreement",
                     GroupFailure::disagreement(
                         {{"rank 0 on a", "barrier #1"}, {"rank 1 on a", "barrier #2"}, {"rank 2 on a", "barrier #1"}}),
                     Kind::Disagreement, -1,
                     "the ranks disagree: rank 0 on a, rank 2 on a call barrier #1; rank 1 on a calls barrier #2"},
        FailureWords{"aborted", GroupFailure::aborted(kRank, "enough"), Kind::Aborted, 7,
                     "rank 3 on alpha ended the group: enough"}),
    [](const auto& test) { return test.param.name; });

TEST(GroupFailure, NamesAFewRanksAndCountsTheRest) {
  std::vector<RankCall> calls(6, {"rank 0 on a", "barrier #1"});
  calls.push_back({"rank 6 on a", "barrier #2"});
  const std::string disagreement = GroupFailure::disagreement(calls).happened;
  EXPECT_NE(disagreement.find("rank 0 on a, rank 0 on a, rank 0 on a, rank 0 on a and 2 more call barrier #1"),
            std::string::npos)
      << disagreement;
  const LateRanks late(kMostNamedRanks + 3, {kRank, "has not arrived", ""});
  const std::string text = describe(late, true);
  EXPECT_EQ(text.substr(text.rfind(';')), "; and 3 more");
}

TEST(GroupFailure, AdvisesTheTimeoutThatApplies) {
  EXPECT_NE(GroupFailure::timed_out("x", 1, {}, true).fix.find(kRaiseTimeout), std::string::npos);
  EXPECT_NE(GroupFailure::start_timed_out("x", 1, {}).fix.find(kRaiseJoinTimeout), std::string::npos);
}

TEST(GroupFailure, ThrowsItsCauseAndItsFinder) {
  GroupFailure failure = GroupFailure::timed_out("barrier #4", 1, {{kRank, "has not arrived", ""}}, true);
  failure.found_by = 2;
  try {
    failure.raise(1);
  } catch (const TimeoutError& error) {
    EXPECT_EQ(error.happened(), failure.happened + " (found by rank 2)");
    ASSERT_NE(cause_of(error), nullptr);
    EXPECT_EQ(*cause_of(error), (FailureCause{FailureCause::Kind::Timeout, 7}));
  }
  try {
    failure.raise(2);
  } catch (const TimeoutError& error) {
    EXPECT_EQ(error.happened(), failure.happened);
  }
}

TEST(GroupFailure, EveryKindHasItsCause) {
  const std::pair<Kind, FailureCause> causes[] = {{Kind::Lost, {FailureCause::Kind::LostPeer, 7}},
                                                  {Kind::Left, {FailureCause::Kind::PeerLeft, 7}},
                                                  {Kind::Timeout, {FailureCause::Kind::Timeout, 7}},
                                                  {Kind::Disagreement, {FailureCause::Kind::Disagreement, -1}},
                                                  {Kind::Aborted, {FailureCause::Kind::AbortedByPeer, 7}}};
  for (const auto& [kind, cause] : causes) {
    const GroupFailure failure{kind, "happened", "fix", 7};
    EXPECT_EQ(failure.cause(), cause);
  }
}

TEST(GroupFailure, SurvivesItsWayThroughTheStore) {
  for (const Kind kind : {Kind::Lost, Kind::Left, Kind::Timeout, Kind::Disagreement, Kind::Aborted}) {
    const GroupFailure sent{kind, "it\nhappened", "fix it", 7, 2};
    const GroupFailure got = GroupFailure::decode(sent.encode());
    EXPECT_EQ(got.kind, kind);
    EXPECT_EQ(got.happened, sent.happened);
    EXPECT_EQ(got.fix, sent.fix);
    EXPECT_EQ(got.blamed, 7);
    EXPECT_EQ(got.found_by, 2);
  }
  // A program's reason for `abort` may hold the byte that parts the fields.
  const GroupFailure odd = GroupFailure::decode(GroupFailure{Kind::Aborted,
                                                             "a\x1f"
                                                             "b",
                                                             "c", 3, 1}
                                                    .encode());
  EXPECT_EQ(odd.kind, Kind::Aborted);
  EXPECT_EQ(odd.happened, "a b");
  EXPECT_EQ(odd.blamed, 3);
}

TEST(GroupFailure, AnyTextInTheStoreBecomesSomeFailure) {
  for (const char* text : {"", "nonsense", "1\x1f",
                           "0\x1f"
                           "0\x1f"
                           "0\x1f"
                           "a\x1f"
                           "b",
                           "6\x1f"
                           "0\x1f"
                           "0\x1f"
                           "a\x1f"
                           "b",
                           "1\x1f"
                           "0\x1f"
                           "0\x1f"
                           "a\x1f"
                           "b\x1f"
                           "c",
                           "99999999999\x1f\x1f\x1f\x1f"}) {
    EXPECT_EQ(GroupFailure::decode(text).happened, "another rank ended the group") << text;
  }
  const GroupFailure odd = GroupFailure::decode(
      "2\x1f"
      "x\x1f"
      "-9\x1f"
      "a\x1f"
      "b");
  EXPECT_EQ(odd.kind, Kind::Left);
  EXPECT_EQ(odd.blamed, -1);
  EXPECT_EQ(odd.found_by, -1);
}

}  // namespace
}  // namespace lockstep

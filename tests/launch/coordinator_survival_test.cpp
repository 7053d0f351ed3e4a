// The rules of an elastic job whose ranks survive the loss of others.
#include <gtest/gtest.h>

#include "tests/launch/coordinator_job.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

TEST(CoordinatorSurvival, GoesOnWithoutALostHostThatLeavesFewerThanTheLeast) {
  CoordinatorJob job = surviving("abc", 3);
  job.say("b", Report::Lost, "connection closed");
  EXPECT_EQ(job.running(), "abc") << "no rank is told to stop";
  EXPECT_EQ(job.generation().number, 1);
  EXPECT_EQ(job.notes("a"), "host host-b was lost: connection closed; the ranks of the other hosts continue\n");
  EXPECT_EQ(job.lost_members(), std::vector<int>{1});
  job.say("c", Report::Leaves, "told to end by SIGTERM");
  EXPECT_TRUE(job.lost_members().empty()) << "its ranks have time to end";
  job.say("a", Report::Succeeded);
  EXPECT_TRUE(job.last("a").success);
}

TEST(CoordinatorSurvival, StartsAllAgainUntilTheRanksOfAllHostsHaveAnnouncedIt) {
  CoordinatorJob job(1, 2);
  job.join("a");
  job.join("b");
  job.say("a", Report::Survives);
  job.say("b", Report::Lost, "connection closed");
  EXPECT_EQ(job.generation().number, 1) << "a alone has announced it, and b is gone";
  job.join("c");
  EXPECT_EQ(job.last("c").generation.first_member, 2);

  CoordinatorJob other(1, 3);
  for (const char* id : {"a", "b", "c"}) other.join(id);
  other.say("a", Report::Survives);
  other.say("c", Report::Lost, "connection closed");
  EXPECT_EQ(other.generation().number, 2);
  EXPECT_TRUE(other.lost_members().empty());
}

// Hosts "a", "b" and "c", whose ranks have announced that they survive, which no launcher has reported.
CoordinatorJob announced(int max_restarts = 0) {
  CoordinatorJob job(3, 4, max_restarts);
  for (const char* id : {"a", "b", "c"}) job.join(id);
  job.pass(30s);
  for (const char* id : {"a", "b", "c"}) job.announce(id);
  return job;
}

TEST(CoordinatorSurvival, AsksWhetherRanksSurviveBeforeItStartsThemAgain) {
  CoordinatorJob lost = announced();
  lost.say("b", Report::Lost, "connection closed");
  EXPECT_EQ(lost.generation().number, 1);
  EXPECT_EQ(lost.notes("c"), "host host-b was lost: connection closed; the ranks of the other hosts continue\n");
  EXPECT_EQ(lost.lost_members(), std::vector<int>{1});

  CoordinatorJob joined = announced();
  joined.join("d");
  EXPECT_EQ(joined.last("d").generation.first_member, 3);

  CoordinatorJob without = announced(1);
  without.say("b", Report::HasNoRanks, "rank 1 failed");
  without.say("b", Report::NeedsRank);
  EXPECT_EQ(without.last("b").member, 3);
  EXPECT_EQ(without.generation().number, 1);
}

TEST(CoordinatorSurvival, TakesWhatHappensWhileItAsksAfterTheAnswers) {
  CoordinatorJob job = announced(2);
  job.make_silent("c");
  job.say("b", Report::NeedsRank);
  EXPECT_EQ(job.last("c").kind, Order::Tell);
  job.say("b", Report::Lost, "connection closed");
  job.join("d");
  job.say("a", Report::HasNoRanks, "rank 0 failed");
  EXPECT_EQ(job.notes("a"), "");
  job.answer("c");
  EXPECT_EQ(job.generation().number, 1);
  EXPECT_EQ(job.lost_members(), (std::vector<int>{1, 3})) << "with the process that was granted";
  EXPECT_EQ(job.last("d").generation.first_member, 4);
  job.say("a", Report::NeedsRank);
  EXPECT_EQ(job.last("a").member, 5);
}

// The ranks of "c" have joined, and the last one of "b" is lost before c's launcher has reported it.
TEST(CoordinatorSurvival, AsksAHostThatCameWhetherItHasRanksIfNobodyElseHas) {
  for (const Report loss : {Report::HasNoRanks, Report::Leaves}) {
    for (const bool has_joined : {true, false}) {
      CoordinatorJob job = surviving("ab", 3, 2);
      job.say("a", Report::HasNoRanks, "rank 0 failed");
      job.join("c");
      if (has_joined) job.announce("c");
      job.say("b", loss, "rank 1 failed");
      EXPECT_EQ(job.generation().number, has_joined ? 1 : 2) << "the ranks of c continue";
    }
  }
}

TEST(CoordinatorSurvival, TakesTheWordThatRanksHaveJoinedForAnAnswer) {
  CoordinatorJob job = surviving("a", 2, 2);
  job.join("b");
  job.make_silent("b");
  job.say("a", Report::HasNoRanks, "rank 0 failed");
  EXPECT_EQ(job.last("b").kind, Order::Tell);
  job.say("b", Report::Survives);
  EXPECT_EQ(job.generation().number, 1);
}

// One that has ranks is known, so nobody waits for others.
TEST(CoordinatorSurvival, AsksNobodyIfSomeRanksAreKnownToBeLeft) {
  CoordinatorJob job = surviving("abc", 4, 2);
  job.join("d");
  job.make_silent("d");
  job.say("a", Report::HasNoRanks, "rank 0 failed");
  job.say("a", Report::NeedsRank);
  EXPECT_EQ(job.last("a").kind, Order::Member);
}

TEST(CoordinatorSurvival, AwaitsNoAnswerOfAHostThatIsLost) {
  CoordinatorJob job = announced();
  job.make_silent("c");
  job.say("b", Report::Lost, "connection closed");
  EXPECT_EQ(job.notes("a"), "");
  job.say("c", Report::Lost, "connection closed");
  EXPECT_EQ(job.notes("a"),
            "host host-b was lost: connection closed; the ranks of the other hosts continue\n"
            "host host-c was lost: connection closed; the ranks of the other hosts continue\n");
  EXPECT_EQ(job.lost_members(), (std::vector<int>{1, 2}));
}

TEST(CoordinatorSurvival, LetsAHostInUnderNewNumbers) {
  CoordinatorJob job = surviving("ab", 3);
  HostEntry c = job.like("c");
  c.local_ranks = 2;
  job.join(c);
  EXPECT_EQ(job.running(), "ab") << "they continue";
  const HostOrder& begin = job.last("c");
  EXPECT_EQ(begin.kind, Order::Begin);
  EXPECT_EQ(begin.generation.number, 1);
  EXPECT_EQ(begin.generation.first_member, 2);
  EXPECT_EQ(begin.generation.hosts.size(), 3U);
  EXPECT_EQ(job.notes("a"), "host host-c joined; its ranks join the running ones\n");
  EXPECT_EQ(job.notes("c"), "");
  job.say("c", Report::Survives);
  job.say("c", Report::Lost, "connection closed");
  EXPECT_EQ(job.lost_members(), (std::vector<int>{2, 3}));
}

TEST(CoordinatorSurvival, GivesTheFreePlaceToWhoWaits) {
  CoordinatorJob job = surviving("ab", 2);
  job.join("c");
  EXPECT_EQ(job.last("c").kind, Order::Wait);
  job.say("b", Report::Lost, "connection closed");
  EXPECT_EQ(job.last("c").kind, Order::Begin);
  EXPECT_EQ(job.last("c").generation.first_member, 2);
}

TEST(CoordinatorSurvival, GrantsAsManyProcessesAsRestarts) {
  CoordinatorJob job = surviving("ab", 2, 2);
  job.say("b", Report::HasNoRanks, "rank 1 failed");
  EXPECT_EQ(job.running(), "ab");
  for (const int member : {2, 3, -1}) {
    job.say("b", Report::NeedsRank);
    EXPECT_EQ(job.last("b").kind, Order::Member);
    EXPECT_EQ(job.last("b").member, member);
  }
  job.say("b", Report::Survives);
  job.say("b", Report::Lost, "connection closed");
  EXPECT_EQ(job.lost_members(), (std::vector<int>{1, 2, 3}));
  job.say("a", Report::Failed, "rank 0 failed first: exit code 1");
  EXPECT_EQ(job.last("a").kind, Order::End) << "no restart is left";
}

TEST(CoordinatorSurvival, IsAFailureOnceNoHostHasARank) {
  CoordinatorJob job = surviving("ab", 3, 1);
  job.say("b", Report::HasNoRanks, "rank 1 failed");
  job.join("c");  // its processes have nobody to join
  job.say("a", Report::HasNoRanks, "rank 0 failed");
  EXPECT_EQ(job.running(), "abc");
  EXPECT_EQ(job.generation().number, 2);
  EXPECT_EQ(job.generation().restarts, 1);
  EXPECT_EQ(job.generation().first_member, -1);
}

TEST(CoordinatorSurvival, IsAFailureIfTheLastHostWithARankIsLost) {
  CoordinatorJob job = surviving("ab", 2, 1);
  job.say("a", Report::HasNoRanks, "rank 0 failed");
  job.say("b", Report::Lost, "connection closed");
  EXPECT_EQ(job.running(), "");
  EXPECT_EQ(job.last("a").text, "1 of at least 2 hosts here (host-a); waiting up to 60 s for others");
}

TEST(CoordinatorSurvival, EndsWellIfOneHostHasTheResultAndTheOthersNoRank) {
  CoordinatorJob job = surviving("ab", 3);
  job.say("b", Report::HasNoRanks, "rank 1 failed");
  job.join("c");
  job.say("a", Report::Succeeded);
  for (const char* host : {"a", "b", "c"}) {
    EXPECT_EQ(job.last(host).kind, Order::End) << host;
    EXPECT_TRUE(job.last(host).success) << host;
  }
}

TEST(CoordinatorSurvival, AwaitsThoseThatJoinedBeforeTheEnd) {
  CoordinatorJob job = surviving("ab", 2);
  job.say("b", Report::HasNoRanks, "rank 1 failed");
  job.say("b", Report::Survives);
  job.say("a", Report::Succeeded);
  EXPECT_EQ(job.running(), "ab");
  job.say("b", Report::Succeeded);
  EXPECT_TRUE(job.last("b").success);
}

}  // namespace
}  // namespace lockstep

// The rules of an elastic job whose coordinator was lost, for the host "a" that takes it over.
#include <gtest/gtest.h>

#include "tests/launch/coordinator_job.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

TEST(CoordinatorTakeover, StartsTheRanksAgainOnceAllHostsAreThere) {
  CoordinatorJob job = taken_over(2, 1);
  job.resume("a", 4, true, 1);
  EXPECT_NE(job.last("a").kind, Order::Stop) << "b may come";
  job.resume("b", 4, true, 1);
  EXPECT_EQ(job.running(), "ab");
  EXPECT_EQ(job.generation().number, 5);
  EXPECT_EQ(job.generation().restarts, 1);
}

TEST(CoordinatorTakeover, WaitsBrieflyForThoseThatAQuorumDoesNotNeed) {
  CoordinatorJob job = taken_over(3, 2);
  job.resume("a", 4, true);
  job.resume("b", 4, true);
  job.pass(5s);
  EXPECT_EQ(job.running(), "");
  job.pass(1s);
  EXPECT_EQ(job.running(), "ab");
  job.resume("c", 4, true);
  EXPECT_EQ(job.last("c").kind, Order::Rejoin);
}

// Its last heartbeat was answered just before the server fell silent, and it has looked for the server for 2 s.
TEST(CoordinatorTakeover, AwaitsAHostThatNoticesTheLossOneHeartbeatLater) {
  CoordinatorJob job = taken_over(3, 2);
  job.resume_surviving("a", 4, ranks_of({1}, 4));
  job.resume_surviving("b", 4, ranks_of({2}, 4));
  job.pass(5s);
  job.resume_surviving("c", 4, ranks_of({3}, 4));
  EXPECT_EQ(job.last("c").kind, Order::Continue) << "its ranks would end, and no fault has hit them";
  EXPECT_EQ(job.running(), "abc");
}

TEST(CoordinatorTakeover, EndsIfTooFewCome) {
  CoordinatorJob job = taken_over(2, 2);
  job.resume("a", 4, true);
  job.join("c");  // a host that was not in the job says nothing about those that were
  job.pass(9s);
  EXPECT_NE(job.last("a").kind, Order::End);
  job.pass(1s);
  EXPECT_EQ(job.last("a").kind, Order::End);
  EXPECT_EQ(job.last("a").text,
            "host host-z is lost; of the 2 hosts that may live 1 came, too few to continue without it");
  EXPECT_TRUE(job.last("a").runs_elsewhere) << "the lost one may continue";
}

TEST(CoordinatorTakeover, TakesTheNewestWorldAndStartsAfterItsHosts) {
  CoordinatorJob job = taken_over(3, 2);
  job.resume("a", 4, false);
  job.resume("b", 5, true, 2);  // only b had heard that generation 5 begins
  job.make_slow("b");
  job.resume("c", 4, true);
  EXPECT_EQ(job.last("c").kind, Order::Rejoin) << "its ranks are of an older generation";
  EXPECT_EQ(job.last("b").kind, Order::Stop);
  EXPECT_EQ(job.running(), "");
  job.make_slow("");
  job.say_of(5, "b", Report::Ready);
  EXPECT_EQ(job.running(), "ab");
  EXPECT_EQ(job.generation().number, 6);
  EXPECT_EQ(job.generation().restarts, 2);
}

TEST(CoordinatorTakeover, EndsWhereTheNumberIsFixedAndNoRestartAsked) {
  Coordinator::Takeover takeover;
  takeover.story = "host host-z is lost";
  takeover.generation = 4;
  CoordinatorJob job(2, 2, 0, takeover);
  job.resume("a", 4, true);
  EXPECT_EQ(job.last("a").kind, Order::End);
  EXPECT_EQ(job.last("a").text, "host host-z is lost");
}

TEST(CoordinatorTakeover, KnowsWhoseRanksHaveEndedMeanwhile) {
  CoordinatorJob job = taken_over(2, 1);
  job.resume("a", 4, true);
  job.say("a", Report::Failed, "rank 0 lost rank 2",
          true);  // a consequence of the loss
  job.say("a", Report::Ready);
  job.make_slow("a");
  job.resume("b", 4, true);
  EXPECT_EQ(job.running(), "ab") << "nothing more is awaited of a";
}

TEST(CoordinatorTakeover, DoesNotAwaitAHostThatIsLostMeanwhile) {
  CoordinatorJob job = taken_over(3, 1);
  job.resume("a", 4, true);
  job.resume("b", 4, true);
  job.say("b", Report::Lost, "connection closed");
  EXPECT_EQ(job.running(), "");
  job.resume("c", 4, true);
  EXPECT_EQ(job.running(), "ac");
}

TEST(CoordinatorTakeover, LetsRanksContinueThatSurviveOthers) {
  CoordinatorJob job = taken_over(3, 1);
  job.resume_surviving("a", 4, ranks_of({2, 3}, 6));
  job.resume_surviving("b", 4, ranks_of({4}, 9));
  EXPECT_EQ(job.running(), "") << "c may come";
  job.say_of(4, "b", Report::Gone, "killed");
  job.resume_surviving("c", 4, ranks_of({7}, 8));
  EXPECT_EQ(job.running(), "abc");
  for (const char* host : {"a", "b", "c"}) {
    const HostOrder& order = job.last(host);
    EXPECT_EQ(order.kind, Order::Continue);
    EXPECT_EQ(order.generation.number, 4) << "the generation is the same";
    EXPECT_EQ(order.generation.era, 1);
    EXPECT_EQ(order.generation.restarts, 1);
    EXPECT_EQ(order.generation.next_member, 9);
    EXPECT_EQ(order.members, (std::vector<int>{2, 3, 4, 7}));
    EXPECT_EQ(order.text, "host host-z is lost; the ranks of the other hosts continue");
  }
  EXPECT_EQ(job.lost_members().size(), 1U) << "the process that has ended meanwhile";
  // A host that comes joins them, under numbers that no process has had.
  job.join("d");
  EXPECT_EQ(job.last("d").generation.first_member, 9);
  EXPECT_EQ(job.last("d").generation.era, 1);
}

TEST(CoordinatorTakeover, StartsAllRanksAgainIfThoseOfOneHostDoNotSurvive) {
  CoordinatorJob job = taken_over(2, 1);
  job.resume_surviving("a", 4, ranks_of({0}, 2));
  job.resume("b", 4, true);
  EXPECT_EQ(job.running(), "ab");
  EXPECT_EQ(job.generation().number, 5);
}

TEST(CoordinatorTakeover, StartsAllRanksAgainIfNoneIsLeft) {
  CoordinatorJob job = taken_over(1, 1);
  HostReport::Ranks none = ranks_of({}, 2);
  none.has_no_ranks = true;
  job.resume_surviving("a", 4, none);
  EXPECT_EQ(job.generation().number, 5);
}

TEST(CoordinatorTakeover, GrantsWhatTheLostHostDidNotGrant) {
  CoordinatorJob job = taken_over(2, 1, 2);  // of which one restart is used
  HostReport::Ranks asks = ranks_of({1}, 3);
  asks.asked = 1;
  job.resume_surviving("a", 4, asks);
  job.resume_surviving("b", 4, asks);
  EXPECT_EQ(job.last("a").kind, Order::Member);
  EXPECT_EQ(job.last("a").member, 3);
  EXPECT_EQ(job.last("b").member, -1) << "no restart is left";
}

// What could not be sent to the lost host is sent to the next one, after the report that counts it.
TEST(CoordinatorTakeover, GrantsEachRequestOnce) {
  CoordinatorJob job = taken_over(2, 1, 9);
  HostReport::Ranks asks = ranks_of({1}, 3);
  asks.requests = asks.asked = 1;
  job.resume_surviving("a", 4, asks);
  job.say("a", Report::NeedsRank);  // number 1 again
  job.say("a", Report::NeedsRank);  // while b is awaited
  job.resume_surviving("b", 4, asks);
  EXPECT_EQ(job.last("a").member, 4) << "two were asked for";
  EXPECT_EQ(job.last("b").member, 5);
  job.say("b", Report::NeedsRank);  // number 1 again
  EXPECT_EQ(job.last("b").member, 5);
  job.say("b", Report::NeedsRank);
  EXPECT_EQ(job.last("b").member, 6);
}

TEST(CoordinatorTakeover, CountsHowOftenTheStoreHasMoved) {
  CoordinatorJob job = taken_over(2, 1);
  job.resume_surviving("a", 4, ranks_of({1}, 3));
  HostReport::Ranks later = ranks_of({2}, 3);
  later.era = 2;  // only b has heard of the second one
  job.resume_surviving("b", 4, later);
  EXPECT_EQ(job.last("a").generation.era, 3);
}

TEST(CoordinatorTakeover, EndsWellIfTheRanksOfAllHostsHaveSucceeded) {
  CoordinatorJob job = taken_over(1, 1);
  HostReport::Ranks done = ranks_of({}, 2);
  done.succeeded = true;
  job.resume_surviving("a", 4, done);
  EXPECT_EQ(job.last("a").kind, Order::End);
  EXPECT_TRUE(job.last("a").success);
}

TEST(CoordinatorTakeover, SendsHostsThatBeginElsewhereToTheJob) {
  CoordinatorJob job(2, 3);
  job.join("a");
  HostReport moved;
  moved.kind = Report::Moved;
  moved.text = "tcp:10.0.0.2:1234";
  job.take(moved);
  job.join("b");
  for (const char* host : {"a", "b"}) {
    EXPECT_EQ(job.last(host).kind, Order::Move);
    EXPECT_EQ(job.last(host).text, "tcp:10.0.0.2:1234");
  }
}

// Its launcher stood still for so long that the others took the job over.
TEST(CoordinatorTakeover, EndsWhatRunsWhereTheJobWasServedBefore) {
  CoordinatorJob job(1, 2);
  job.join("a");
  job.join("b");
  ASSERT_EQ(job.running(), "ab");
  HostReport moved;
  moved.kind = Report::Moved;
  moved.text = "tcp:10.0.0.2:1234";
  job.take(moved);
  EXPECT_EQ(job.last("a").kind, Order::End);
  EXPECT_FALSE(job.last("a").success);
  EXPECT_TRUE(job.last("a").runs_elsewhere);
  EXPECT_NE(job.last("a").text.find("served at tcp:10.0.0.2:1234"), std::string::npos) << job.last("a").text;
}

// A generation of `hosts` is cut into two parts at one moment, and some hosts of each part die then.
struct Cut {
  int hosts = 2;
  int away = 1;       // hosts in the part without the serving one
  int dead_here = 0;  // of the others in the serving host's part
  int dead_away = 0;
  bool dead_first = true;  // the serving host hears of the dead before it misses the silent
};

std::string host_number(int number) { return std::string(1, static_cast<char>('a' + number)); }

bool serving_part_continues(const Cut& cut) {
  CoordinatorJob job(1, cut.hosts);
  for (int host = 0; host < cut.hosts; ++host) job.join(host_number(host));
  const auto lose = [&](int first, int count, const char* cause) {
    for (int host = first; host < first + count; ++host) job.say(host_number(host), Report::Lost, cause);
  };
  if (cut.dead_first) lose(1, cut.dead_here, "connection closed");
  for (int host = cut.hosts - cut.away; host < cut.hosts; ++host) job.make_silent(host_number(host));
  lose(cut.hosts - cut.away, cut.away, "not heard of for 15.0 s");
  if (!cut.dead_first) lose(1, cut.dead_here, "connection closed");
  return job.last("a").kind != Order::End;
}

bool other_part_continues(const Cut& cut) {
  Coordinator::Takeover takeover;
  takeover.generation = 4;
  takeover.hosts = cut.hosts - 1;
  takeover.quorum = Coordinator::Takeover::quorum_of(cut.hosts, false);
  if (!takeover.is_possible() || cut.dead_away == cut.away) return false;
  CoordinatorJob job(1, cut.hosts, 0, takeover);
  for (int host = 0; host < cut.away - cut.dead_away; ++host) job.resume(host_number(host), 4, true);
  job.pass(10s);
  return job.last("a").kind != Order::End;
}

TEST(CoordinatorTakeover, LeavesAtMostOnePartOfACutWorldRunning) {
  int cuts = 0, away_continues = 0;
  for (Cut cut; cut.hosts <= 6; ++cut.hosts) {
    for (cut.away = 1; cut.away < cut.hosts; ++cut.away) {
      for (cut.dead_here = 0; cut.dead_here < cut.hosts - cut.away; ++cut.dead_here) {
        for (cut.dead_away = 0; cut.dead_away <= cut.away; ++cut.dead_away) {
          for (const bool dead_first : {true, false}) {
            cut.dead_first = dead_first;
            const bool here = serving_part_continues(cut), away = other_part_continues(cut);
            EXPECT_FALSE(here && away) << cut.hosts << " " << cut.away << " " << cut.dead_here << " " << cut.dead_away;
            EXPECT_TRUE(here || away || cut.dead_here + cut.dead_away > 0) << cut.hosts << " " << cut.away;
            ++cuts;
            away_continues += away ? 1 : 0;
          }
        }
      }
    }
  }
  EXPECT_GT(cuts, 100);
  EXPECT_GT(away_continues, 10);
}

// The kernel of the lost host refuses connections, so it surely has ended, whatever else is dead.
TEST(CoordinatorTakeover, IsPossibleForOneOfTwoIfTheOtherHasEnded) {
  using Takeover = Coordinator::Takeover;
  EXPECT_EQ(Takeover::quorum_of(2, true), 1);
  EXPECT_EQ(Takeover::quorum_of(2, false), 2);
  EXPECT_EQ(Takeover::quorum_of(3, true), 2);
  EXPECT_EQ(Takeover::quorum_of(3, false), 2);
  EXPECT_EQ(Takeover::quorum_of(4, false), 3);
}

TEST(CoordinatorTakeover, OfOthersMayHaveHappenedIfMostHostsAreSilentAtOnce) {
  CoordinatorJob job(1, 3);
  for (const char* id : {"a", "b", "c"}) job.join(id);
  job.say("b", Report::Lost, "not heard of for 15.0 s");
  EXPECT_EQ(job.running(), "ac") << "two of three are here";
  job.say("c", Report::Lost, "not heard of for 15.0 s");
  EXPECT_EQ(job.last("a").kind, Order::End) << "b and c may continue without a";

  CoordinatorJob later(1, 3);
  for (const char* id : {"a", "b", "c"}) later.join(id);
  later.say("b", Report::Lost, "not heard of for 15.0 s");
  later.pass(31s);
  later.say("c", Report::Lost, "not heard of for 15.0 s");
  EXPECT_EQ(later.running(), "a") << "b alone had too few hosts to continue, and has ended";

  CoordinatorJob returned(1, 3);
  for (const char* id : {"a", "b", "c"}) returned.join(id);
  returned.say("b", Report::Lost, "not heard of for 15.0 s");
  returned.say("b", Report::Returns);
  EXPECT_EQ(returned.last("b").kind, Order::Rejoin);
  returned.say("c", Report::Lost, "not heard of for 15.0 s");
  EXPECT_EQ(returned.running(), "a") << "b does not continue without a";

  CoordinatorJob closed(1, 3);
  for (const char* id : {"a", "b", "c"}) closed.join(id);
  closed.say("b", Report::Lost, "connection closed");
  closed.say("c", Report::Lost, "connection closed");
  EXPECT_EQ(closed.running(), "a") << "their launchers have ended";

  CoordinatorJob mixed(1, 3);
  for (const char* id : {"a", "b", "c"}) mixed.join(id);
  mixed.say("b", Report::Lost, "connection closed");
  mixed.say("c", Report::Lost, "not heard of for 15.0 s");
  EXPECT_EQ(mixed.running(), "a") << "b's launcher has ended, and c alone is too few";
}

// It hears no more of the others, whose silence it notices one after the other. What it sent to them may still arrive.
TEST(CoordinatorTakeover, ByTheOthersMeetsWhatTheyKnewBeforeTheirSilence) {
  CoordinatorJob job = surviving("abcd", 4);
  for (const char* id : {"b", "c", "d"}) job.make_silent(id);
  job.say("c", Report::Lost, "not heard of for 15.0 s");
  job.say("b", Report::Lost, "not heard of for 15.0 s");
  EXPECT_EQ(job.last("a").kind, Order::Tell) << "of d nothing is known yet";
  job.say("d", Report::Lost, "not heard of for 15.0 s");
  EXPECT_EQ(job.last("a").kind, Order::End);
  EXPECT_TRUE(job.last("a").runs_elsewhere) << "its ranks must write nothing more";
  for (const char* id : {"b", "c", "d"}) {
    EXPECT_EQ(job.last(id).kind, Order::Return) << id;
    EXPECT_EQ(job.notes(id), "") << "it would await fewer hosts to take over";
  }
  EXPECT_EQ(job.notes("a"), "") << "no rank continues without the others for a moment";
  EXPECT_TRUE(job.lost_members().empty());
}

TEST(CoordinatorTakeover, IsNotToBeFearedOnceEnoughHostsHaveAnswered) {
  for (const bool survive : {true, false}) {
    CoordinatorJob job = survive ? surviving("abcde", 5) : CoordinatorJob(1, 5);
    for (const char* id : {"a", "b", "c", "d", "e"}) {
      if (!survive) job.join(id);
    }
    for (const char* id : {"b", "d", "e"}) job.make_silent(id);
    job.say("b", Report::Lost, "not heard of for 15.0 s");
    job.answer("e");
    EXPECT_EQ(job.last("d").kind, Order::Tell);
    job.say("d", Report::Lost, "not heard of for 15.0 s");
    EXPECT_EQ(job.running(), survive ? "abcde" : "ace");
    for (const char* id : {"b", "d"}) EXPECT_EQ(job.last(id).kind, Order::Return) << id;
    for (const char* id : {"a", "c", "e"}) {
      EXPECT_EQ(job.last(id).kind, survive ? Order::Tell : Order::Begin) << id;
      const std::string told = "was lost: not heard of for 15.0 s; the ranks of the other hosts continue\n";
      EXPECT_EQ(job.notes(id), survive ? "host host-b " + told + "host host-d " + told : "");
    }
    EXPECT_EQ(job.lost_members(), survive ? (std::vector<int>{1, 3}) : std::vector<int>{});
  }
}

// A host has just come, whose ranks have not announced yet that they survive others; another one falls silent.
TEST(CoordinatorTakeover, AsksOnceMoreIfAHostIsSilentAfterItHasAsked) {
  CoordinatorJob job = surviving("abc", 4);
  job.join("d");
  job.make_silent("d");
  job.say("a", Report::HasNoRanks, "rank 0 failed");
  job.say("b", Report::HasNoRanks, "rank 1 failed");
  job.say("c", Report::HasNoRanks, "rank 2 failed");
  ASSERT_EQ(job.last("d").kind, Order::Tell) << "it alone may have ranks";
  job.say("b", Report::Lost, "not heard of for 15.0 s");
  job.announce("d");
  job.answer("d");
  EXPECT_EQ(job.notes("c"), "host host-d joined; its ranks join the running ones\n");
  job.answer("d");
  EXPECT_EQ(job.notes("c"), "host host-b was lost: not heard of for 15.0 s; the ranks of the other hosts continue\n");
}

// The link of the serving host is up again while its launcher ends: the others must not end their ranks, too.
TEST(CoordinatorTakeover, SendsNobodyAwayOnceItsHostWasCutOff) {
  CoordinatorJob job(1, 3);
  for (const char* id : {"a", "b", "c"}) job.join(id);
  for (const char* id : {"b", "c"}) job.say(id, Report::Lost, "not heard of for 15.0 s");
  ASSERT_EQ(job.last("a").kind, Order::End);
  for (const char* id : {"b", "c"}) {
    job.say(id, Report::Returns);
    EXPECT_EQ(job.last(id).kind, Order::Return) << "it takes over, or ends, once this launcher has ended";
  }
}

}  // namespace
}  // namespace lockstep

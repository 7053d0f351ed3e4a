// Hosts that fall silent while others are asked, or are asked while others fall silent.
#include <gtest/gtest.h>

#include "tests/launch/coordinator_job.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

constexpr const char* kSilent = "not heard of for 15.0 s";

// c falls silent on its own, a little after the link to b, d and e is down: it is missed long after these take over.
TEST(CoordinatorSilence, EndsTheJobHereBeforeTheOthersTakeOver) {
  CoordinatorJob job = surviving("abcde", 5);
  for (const char* id : {"b", "c", "d", "e"}) job.make_silent(id);
  for (const char* id : {"b", "d"}) job.say(id, Report::Lost, kSilent);
  EXPECT_EQ(job.last("a").kind, Order::Tell) << "b and d are too few to take over";
  job.say("e", Report::Lost, kSilent);
  EXPECT_EQ(job.last("a").kind, Order::End) << "whether c answers changes nothing";
  EXPECT_TRUE(job.last("a").runs_elsewhere);
  EXPECT_EQ(job.notes("a"), "");
  EXPECT_TRUE(job.lost_members().empty());
}

// The same, while hosts are asked for another reason.
TEST(CoordinatorSilence, EndsTheJobHereWhoeverElseIsAsked) {
  CoordinatorJob job(5, 6);
  for (const char* id : {"a", "b", "c", "d", "e"}) job.join(id);
  job.pass(30s);
  for (const char* id : {"b", "c", "d", "e"}) job.make_silent(id);
  job.join("f");
  for (const char* id : {"b", "d"}) job.say(id, Report::Lost, kSilent);
  ASSERT_EQ(job.last("c").kind, Order::Tell);
  job.say("e", Report::Lost, kSilent);
  EXPECT_EQ(job.last("a").kind, Order::End);
  EXPECT_TRUE(job.last("a").runs_elsewhere);
  EXPECT_EQ(job.last("f").kind, Order::Refuse) << "it came too late";
  for (const char* id : {"b", "d", "e"}) EXPECT_EQ(job.last(id).kind, Order::Return) << id;
}

// Before the others are asked, or while they are.
TEST(CoordinatorSilence, OfOneThatHasReturnedDoesNotCount) {
  for (const bool is_given_up : {true, false}) {
    CoordinatorJob job = surviving("abcde", 5);
    if (!is_given_up) job.make_silent("e");
    job.say("b", Report::Lost, kSilent);
    ASSERT_EQ(job.last("b").kind, Order::Return);
    job.make_silent("e");
    if (is_given_up) job.say("c", Report::Lost, kSilent);
    job.say("b", Report::Returns);
    if (!is_given_up) job.say("c", Report::Lost, kSilent);
    job.say("d", Report::Lost, kSilent);
    job.answer("e");
    EXPECT_EQ(job.last("a").kind, Order::Tell) << "c and d are too few to take over";
    EXPECT_EQ(job.last("b").kind, Order::Rejoin);
  }
}

// Whether hosts have ended does not count: they cannot take over.
TEST(CoordinatorSilence, IsDecidedAboutBeforeHostsThatHaveEnded) {
  CoordinatorJob job = surviving("abcd", 4);
  for (const char* id : {"b", "c", "d"}) job.make_silent(id);
  job.say("b", Report::Lost, kSilent);
  job.say("c", Report::Lost, "connection closed");
  job.say("d", Report::Lost, kSilent);
  EXPECT_EQ(job.last("a").kind, Order::Tell) << "b and d are too few to take over";
  EXPECT_EQ(job.lost_members(), (std::vector<int>{1, 3, 2}));
}

TEST(CoordinatorSilence, DoesNotKeepTheJobFromItsEnd) {
  CoordinatorJob job = surviving("abcd", 4);
  for (const char* id : {"b", "c", "d"}) job.make_silent(id);
  job.say("b", Report::Lost, kSilent);
  job.say("a", Report::Leaves, "the launcher of node 0 was told to end by SIGTERM");
  EXPECT_EQ(job.last("c").kind, Order::End) << "the user has ended the job: nobody must take over";
  EXPECT_FALSE(job.last("c").runs_elsewhere) << "its ranks may save their state";
  EXPECT_EQ(job.notes("c"), "");

  CoordinatorJob moved = surviving("abcd", 4);
  for (const char* id : {"b", "c", "d"}) moved.make_silent(id);
  moved.say("b", Report::Lost, kSilent);
  HostReport report;
  report.kind = Report::Moved;
  report.text = "tcp:10.0.0.2:1234";
  moved.take(report);
  EXPECT_EQ(moved.last("a").kind, Order::End);
  EXPECT_TRUE(moved.last("a").runs_elsewhere);
}

TEST(CoordinatorSilence, LeavesNothingToDoUntilHostsHaveAnswered) {
  const Coordinator::Time start{};
  Coordinator coordinator(CoordinatorJob::entry("a", 1, 3, 0), {60s, 30s, 2s}, start);
  HostReport report;
  for (const char* id : {"a", "b", "c", "d"}) {
    report.host = id;
    report.entry = CoordinatorJob::entry(id, 1, 3, 0);
    coordinator.take(report, start);
  }
  EXPECT_EQ(coordinator.next_time(), start + 60s);
  report.kind = Report::Lost;
  report.host = "b";
  report.text = kSilent;
  coordinator.take(report, start + 59s);
  EXPECT_EQ(coordinator.next_time(), std::nullopt) << "d is told afterwards that there is no place";
}

// b and c know nothing of d, and take over with more than half of three hosts.
TEST(CoordinatorSilence, OfMostHostsIsNotOutweighedByOneThatWaits) {
  for (const bool survive : {true, false}) {
    CoordinatorJob job = survive ? surviving("abc", 3) : CoordinatorJob(1, 3);
    for (const char* id : {"a", "b", "c", "d"}) {
      if (!survive || *id == 'd') job.join(id);
    }
    ASSERT_EQ(job.last("d").kind, Order::Wait);
    for (const char* id : {"b", "c"}) job.make_silent(id);
    for (const char* id : {"b", "c"}) job.say(id, Report::Lost, kSilent);
    EXPECT_EQ(job.last("a").kind, Order::End);
    EXPECT_TRUE(job.last("a").runs_elsewhere);
  }
}

// d comes after the link to b and c is down, and before they are missed.
TEST(CoordinatorSilence, OfMostHostsIsNotOutweighedByOneThatComesMeanwhile) {
  for (const bool survive : {true, false}) {
    CoordinatorJob job = survive ? surviving("abc", 4) : CoordinatorJob(1, 4);
    for (const char* id : {"a", "b", "c"}) {
      if (!survive) job.join(id);
    }
    if (!survive) job.pass(30s);
    for (const char* id : {"b", "c"}) job.make_silent(id);
    job.join("d");
    for (const char* id : {"b", "c"}) job.say(id, Report::Lost, kSilent);
    EXPECT_EQ(job.last("a").kind, Order::End);
    EXPECT_TRUE(job.last("a").runs_elsewhere);
    EXPECT_EQ(job.last("d").kind, Order::Refuse);
  }
}

// The same while the ranks of all hosts end, because one of them has failed.
TEST(CoordinatorSilence, OfMostHostsIsNotOutweighedByOneThatComesBetweenTwoWorlds) {
  CoordinatorJob job(1, 4, 1);
  for (const char* id : {"a", "b", "c"}) job.join(id);
  job.pass(30s);
  job.make_slow("b");
  job.say("b", Report::Failed, "rank 1 failed");
  job.join("d");
  for (const char* id : {"c", "b"}) job.say(id, Report::Lost, kSilent);
  EXPECT_EQ(job.last("a").kind, Order::End);
  EXPECT_TRUE(job.last("a").runs_elsewhere);
}

// Nobody takes over before there was a generation.
TEST(CoordinatorSilence, MeansLittleBeforeTheFirstWorld) {
  CoordinatorJob job(4, 5);
  for (const char* id : {"a", "b", "c"}) job.join(id);
  for (const char* id : {"b", "c"}) job.say(id, Report::Lost, kSilent);
  EXPECT_EQ(job.last("a").kind, Order::Wait);
}

}  // namespace
}  // namespace lockstep

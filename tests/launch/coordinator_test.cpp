// The rules of an elastic job, without sockets, processes or waits: reports and times are the input, orders the output.
#include <gtest/gtest.h>

#include "tests/launch/coordinator_job.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using Job = CoordinatorJob;

TEST(Coordinator, BeginsAtOnceWithTheMostHosts) {
  Job job(2, 3);
  job.join("a");
  job.join("b");
  EXPECT_EQ(job.running(), "");
  job.join("c");
  EXPECT_EQ(job.running(), "abc");
  EXPECT_EQ(job.generation().number, 1);
}

TEST(Coordinator, TellsWhoIsAwaitedAtMostOnceASecond) {
  Job job(4, 4);
  job.join("a");
  const std::string one = "1 of at least 4 hosts here (host-a); waiting up to 60 s for others";
  EXPECT_EQ(job.last("a").text, one);
  EXPECT_EQ(job.last("a").time_left, 60s);
  job.join("b");
  job.join("c");
  EXPECT_EQ(job.last("a").text, one);
  job.pass(1s);
  for (const char* host : {"a", "b", "c"}) {
    EXPECT_EQ(job.last(host).text,
              "3 of at least 4 hosts here (host-a, host-b, host-c); waiting up to 60 s for others");
    EXPECT_EQ(job.last(host).time_left, 59s);
  }
}

TEST(Coordinator, TellsLaunchersOfOneHostApart) {
  Job job(2, 2);
  job.join("a");
  HostEntry b = job.like("b");
  b.name = "host-a";
  b.pid = 4711;
  job.join(b);
  EXPECT_EQ(job.generation().hosts[0].name, "host-a (pid 0)");
  EXPECT_EQ(job.generation().hosts[1].name, "host-a (pid 4711)");
  job.say("b", Report::Lost, "connection closed");
  EXPECT_EQ(job.last("a").text, "host host-a (pid 4711) was lost: connection closed");
}

TEST(Coordinator, BeginsWithTheLeastHostsAfterTheLastCall) {
  Job job(2, 3);
  job.join("a");
  job.pass(20s);
  job.join("b");
  EXPECT_EQ(job.last("a").kind, Order::Wait);
  EXPECT_EQ(job.last("a").text, "2 of up to 3 hosts are here (host-a, host-b); others have 30 s to join");
  job.pass(29s);
  EXPECT_EQ(job.running(), "");
  job.pass(1s);
  EXPECT_EQ(job.running(), "ab");
}

TEST(Coordinator, WaitsForTheHostThatServes) {
  Job job(1, 2);
  job.join("b");
  job.join("c");
  EXPECT_EQ(job.running(), "");
  job.join("a");
  EXPECT_EQ(job.running(), "ab") << "the one that serves is the first; the last one finds no place";
  EXPECT_EQ(
      job.last("c").text,
      "the job has all its 2 hosts (host-a, host-b); this host waits up to 60 s for a place. If it is of another job, "
      "that needs an endpoint of its own");
}

TEST(Coordinator, EndsWhereTooFewCome) {
  Job job(3, 4);
  job.join("a");
  job.join("b");
  job.pass(60s);
  EXPECT_EQ(job.last("b").kind, Order::End);
  EXPECT_FALSE(job.last("b").success);
  EXPECT_EQ(job.last("b").text, "2 of at least 3 hosts came within 60 s: host-a, host-b");
  job.join("c");
  EXPECT_EQ(job.last("c").kind, Order::Refuse);
}

TEST(Coordinator, GoesOnWithFewerHostsWithoutARestart) {
  Job job(1, 3, 0);
  for (const char* id : {"a", "b", "c"}) job.join(id);
  job.make_slow("c");
  job.say("b", Report::Lost, "connection closed");
  EXPECT_EQ(job.running(), "") << "ranks of c still run";
  EXPECT_EQ(job.last("c").text, "host host-b was lost: connection closed");
  EXPECT_FALSE(job.last("c").has_time);
  job.say("c", Report::Ready);
  EXPECT_EQ(job.running(), "ac");
  EXPECT_EQ(job.generation().restarts, 0);
  EXPECT_EQ(job.generation().number, 2);
}

TEST(Coordinator, TakesAHostThatComesLater) {
  Job job(1, 3);
  job.join("a");
  job.pass(30s);
  ASSERT_EQ(job.running(), "a");
  job.make_slow("a");
  job.join("b");
  EXPECT_EQ(job.last("a").kind, Order::Stop);
  EXPECT_TRUE(job.last("a").has_time) << "ranks may save what they have";
  EXPECT_EQ(job.last("a").text, "host host-b joined");
  job.say("a", Report::Ready);
  EXPECT_EQ(job.running(), "ab");
  EXPECT_EQ(job.generation().restarts, 0);
}

TEST(Coordinator, GivesAFreePlaceToWhoWaits) {
  Job job(2, 2, 1);
  for (const char* id : {"a", "b", "c"}) job.join(id);
  ASSERT_EQ(job.running(), "ab");
  job.say("b", Report::Leaves, "told to end");
  EXPECT_EQ(job.running(), "ac");
  EXPECT_EQ(job.generation().restarts, 0);
}

TEST(Coordinator, RefusesWhoWaitsTooLong) {
  Job job(1, 1);
  job.join("a");
  job.join("b");
  job.pass(60s);
  EXPECT_EQ(job.last("b").kind, Order::Refuse);
  EXPECT_EQ(job.last("b").text, "host host-b cannot join the job: it had all its 1 host for 60 s");
  EXPECT_EQ(job.running(), "a");
}

TEST(Coordinator, CountsFailures) {
  Job job(1, 2, 1);
  job.join("a");
  job.join("b");
  job.say("b", Report::Failed, "rank 1 on host-b failed first: exit code 1");
  EXPECT_EQ(job.running(), "ab");
  EXPECT_EQ(job.generation().restarts, 1);
  job.say("a", Report::Failed, "rank 0 on host-a failed first: exit code 2");
  EXPECT_EQ(job.last("b").kind, Order::End);
  EXPECT_EQ(job.last("b").text, "rank 0 on host-a failed first: exit code 2");
}

TEST(Coordinator, HearsNothingOfWorldsBefore) {
  Job job(1, 2, 5);
  job.join("a");
  job.join("b");
  HostReport late;
  job.say("b", Report::Failed, "first");
  ASSERT_EQ(job.generation().restarts, 1);
  job.make_slow("a");
  job.say("b", Report::Failed, "second");
  job.say("a", Report::Failed, "of the same generation");
  job.say("a", Report::Ready);
  EXPECT_EQ(job.generation().restarts, 2);
}

TEST(Coordinator, AsksAllBeforeItBelievesThatAPeerFailed) {
  Job job(1, 3, 1);
  for (const char* id : {"a", "b", "c"}) job.join(id);
  job.say("a", Report::Failed, "rank 0 lost rank 2", true);
  EXPECT_EQ(job.last("b").kind, Order::Probe);
  EXPECT_EQ(job.running(), "abc");
  job.say("b", Report::Answers);
  job.pass(2s);
  EXPECT_EQ(job.running(), "ab") << "c did not answer";
  EXPECT_EQ(job.generation().restarts, 0);
  EXPECT_EQ(job.last("b").kind, Order::Begin);
  EXPECT_EQ(job.last("c").kind, Order::Return);
  job.say("c", Report::Returns);
  EXPECT_EQ(job.last("c").kind, Order::Rejoin);
  EXPECT_EQ(job.last("c").text,
            "host host-c was taken for lost: it did not answer for 2 s, and other hosts lost a rank");
}

TEST(Coordinator, BelievesItOnceAllHaveAnswered) {
  Job job(1, 2, 1);
  job.join("a");
  job.join("b");
  job.say("a", Report::Failed, "rank 0 lost rank 1", true);
  job.say("b", Report::Answers);
  EXPECT_EQ(job.generation().restarts, 1);
}

TEST(Coordinator, PrefersACauseToItsVictims) {
  Job job(1, 2, 0);
  job.join("a");
  job.join("b");
  job.say("a", Report::Failed, "rank 0 lost rank 1", true);
  job.say("b", Report::Failed, "rank 1 failed first: exit code 3");
  EXPECT_EQ(job.last("a").text, "rank 1 failed first: exit code 3");
}

TEST(Coordinator, StartsNoRanksAgainThatWouldFailAlike) {
  Job job(1, 2, 3);
  job.join("a");
  job.join("b");
  HostReport report;
  report.kind = Report::Failed;
  report.host = "b";
  report.generation = job.generation().number;
  report.text = "rank 1 refused its arguments";
  report.recurs = true;
  job.take(report);
  EXPECT_EQ(job.last("a").kind, HostOrder::Kind::End);
  EXPECT_FALSE(job.last("a").success);
  EXPECT_EQ(job.last("a").text, "rank 1 refused its arguments");
}

TEST(Coordinator, EndsWellWhenAllRanksHave) {
  Job job(1, 2);
  job.join("a");
  job.join("b");
  job.say("a", Report::Succeeded);
  EXPECT_EQ(job.running(), "ab");
  job.say("b", Report::Succeeded);
  EXPECT_EQ(job.last("a").kind, Order::End);
  EXPECT_TRUE(job.last("a").success);
}

TEST(Coordinator, DoesNotMissAHostWhoseRanksHadEnded) {
  Job job(1, 2);
  job.join("a");
  job.join("b");
  job.say("b", Report::Succeeded);
  job.say("b", Report::Lost, "connection closed");
  EXPECT_EQ(job.running(), "ab");
  job.say("a", Report::Succeeded);
  EXPECT_TRUE(job.last("a").success);
}

TEST(Coordinator, WaitsForAReplacementWhereTheNumberIsFixed) {
  Job job(2, 2, 1);
  job.join("a");
  job.join("b");
  job.say("b", Report::Lost, "not heard of for 15 s");
  EXPECT_EQ(job.running(), "");
  EXPECT_EQ(job.last("a").text, "1 of at least 2 hosts here (host-a); waiting up to 60 s for others");
  job.pass(10s);
  job.join("c");
  EXPECT_EQ(job.running(), "ac");
}

TEST(Coordinator, EndsWithAHostWhereTheNumberIsFixedAndNoRestartAsked) {
  Job job(2, 2, 0);
  job.join("a");
  job.join("b");
  job.say("b", Report::Lost, "connection closed");
  EXPECT_EQ(job.last("a").kind, Order::End);
  EXPECT_EQ(job.last("a").text, "host host-b was lost: connection closed");
}

TEST(Coordinator, EndsWithTheHostThatServes) {
  Job job(1, 2, 3);
  job.join("a");
  job.join("b");
  job.say("a", Report::Leaves, "told to end by SIGTERM");
  EXPECT_EQ(job.last("b").kind, Order::End);
  EXPECT_EQ(job.last("b").text, "host host-a left: told to end by SIGTERM; it serves the rendezvous, so the job ends");
}

struct Stranger {
  const char* name;
  void (*change)(HostEntry&);
  const char* reason;
  friend std::ostream& operator<<(std::ostream& out, const Stranger& s) { return out << s.name; }
};
class CoordinatorRefuses : public ::testing::TestWithParam<Stranger> {};

TEST_P(CoordinatorRefuses, WhoDoesNotFit) {
  Job job(1, 2);
  HostEntry other = job.like("b");
  GetParam().change(other);
  job.join("a");
  job.join(other);
  EXPECT_EQ(job.last("b").kind, Order::Refuse);
  EXPECT_EQ(job.last("b").text, std::string("host host-b cannot join the job: host-b has ") + GetParam().reason);
  EXPECT_EQ(job.last("a").kind, Order::Wait) << "nobody else is disturbed";
}

INSTANTIATE_TEST_SUITE_P(
    Strangers, CoordinatorRefuses,
    ::testing::Values(Stranger{"version", [](HostEntry& e) { e.version = "2"; }, "Lockstep 2, host-a has 1"},
                      Stranger{"job", [](HostEntry& e) { e.run_id = "other"; }, "--rdzv-id other, host-a has none"},
                      Stranger{"number", [](HostEntry& e) { e.min_nodes = 2; }, "--nnodes 2, host-a has 1:2"},
                      Stranger{"restarts", [](HostEntry& e) { e.max_restarts = 9; }, "--max-restarts 9, host-a has 0"},
                      Stranger{"build", [](HostEntry& e) { e.program_digest = "22"; },
                               "another build of the program: ./train (22), host-a has ./train (11)"},
                      Stranger{"model",
                               [](HostEntry& e) {
                                 e.rest = {"--model", "bert"};
                               },
                               "the program's arguments '--model bert', host-a has ''"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace lockstep

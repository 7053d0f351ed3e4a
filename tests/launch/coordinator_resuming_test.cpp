// The rules of an elastic job whose coordinator was lost, for what happens while its hosts are awaited.
#include <gtest/gtest.h>

#include "tests/launch/coordinator_job.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// The hosts behind the first one serve in turn if it is lost, too.
TEST(CoordinatorResuming, AwaitsItsOwnHostWhichIsTheFirstOne) {
  CoordinatorJob job = taken_over(3, 2);
  job.resume_surviving("b", 4, ranks_of({1}, 3));
  job.resume_surviving("c", 4, ranks_of({2}, 3));
  job.pass(9s);
  EXPECT_EQ(job.running(), "") << "two of three are there, but not the one that serves";
  job.resume_surviving("a", 4, ranks_of({0}, 3));
  EXPECT_EQ(job.running(), "abc");
}

// What a host reports after it has resumed, while another one is awaited.
TEST(CoordinatorResuming, TakesWhatHappensToRanksMeanwhile) {
  const auto last_after = [](Report kind, bool had_no_ranks) {
    CoordinatorJob job = taken_over(2, 1);
    HostReport::Ranks ranks = ranks_of({0}, 2);
    ranks.has_no_ranks = had_no_ranks;
    job.resume_surviving("a", 4, ranks);
    job.say("a", kind, "rank 0 was killed");
    HostReport::Ranks none = ranks_of({}, 2);
    none.has_no_ranks = true;
    job.resume_surviving("b", 4, none);
    return job.last("b");
  };
  EXPECT_EQ(last_after(Report::Survives, true).kind, Order::Continue);
  EXPECT_EQ(last_after(Report::HasNoRanks, false).kind, Order::Begin) << "no rank has the state";
  EXPECT_EQ(last_after(Report::Failed, false).kind, Order::Begin) << "its ranks are ended";
  const HostOrder end = last_after(Report::Succeeded, false);
  EXPECT_EQ(end.kind, Order::End);
  EXPECT_TRUE(end.success) << end.text;
}

TEST(CoordinatorResuming, KnowsRanksThatSurviveFromTheirLaterWord) {
  CoordinatorJob job = taken_over(2, 1);
  job.resume("a", 4, true);
  job.say("a", Report::Survives);
  job.resume_surviving("b", 4, ranks_of({1}, 2));
  EXPECT_EQ(job.last("a").kind, Order::Continue);
}

// It was sent before the host's next generation began, and is read after the host has resumed.
TEST(CoordinatorResuming, IgnoresReportsOfAnOlderWorld) {
  CoordinatorJob job = taken_over(2, 1);
  job.resume_surviving("a", 5, ranks_of({0}, 2));
  job.say_of(4, "a", Report::Failed, "rank 0 failed");
  job.resume_surviving("b", 5, ranks_of({1}, 2));
  EXPECT_EQ(job.last("a").kind, Order::Continue);
}

TEST(CoordinatorResuming, LetsHostsInThatCameMeanwhile) {
  CoordinatorJob job = taken_over(2, 1);
  job.resume_surviving("a", 4, ranks_of({0}, 5));
  job.join("d");
  job.join("e");
  job.say("e", Report::Lost, "connection closed");  // it was not in the job, so b is still awaited
  EXPECT_EQ(job.running(), "");
  job.resume_surviving("b", 4, ranks_of({1}, 5));
  EXPECT_EQ(job.last("a").members, (std::vector<int>{0, 1}));
  EXPECT_EQ(job.last("d").kind, Order::Begin);
  EXPECT_EQ(job.last("d").generation.first_member, 5);
}

}  // namespace
}  // namespace lockstep

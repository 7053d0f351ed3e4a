// Tests lockstep::on_rank_change on several hosts, which several launchers of this machine represent: ranks and
// launchers are killed, come back and join.
#include <signal.h>

#include <memory>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/launcher/surviving_hosts.h"
#include "tests/support/test_size.h"

namespace lockstep {
namespace {

// What the launchers decide in each of these is in tests/launch/coordinator_*, and what the ranks agree on is simulated
// (tests/simulation): the suite has those that real processes alone can show.
using SurvivingHostsLong = SurvivingHosts;

// 0: the host has no rank now.
pid_t first_rank_of(const Program& host) {
  std::istringstream pids(run_program({"pgrep", "-P", std::to_string(host->pid()), "-x", "elastic_rank"}).out);
  pid_t pid = 0;
  pids >> pid;
  return pid;
}

// Waits until one of the hosts' processes has the training's state that is not among `killed`. @return  false if none
// gets it in time
bool wait_for_state(const std::vector<const Program*>& hosts, const std::set<pid_t>& killed) {
  for (const Deadline deadline = soon(); !deadline.passed();) {
    for (const Program* host : hosts) {
      for (const pid_t pid : pids_after((*host)->out(), "process")) {
        if (killed.count(pid) == 0) return true;
      }
      (*host)->wait_for_more(Deadline::after(std::chrono::milliseconds(20)));
    }
  }
  return false;
}

TEST_F(SurvivingHostsLong, ReplaceALostRankByThemselves) {
  for (const std::string rank : {"1", "2"}) {  // of the host that serves the store, and of the other one
    const Words events{rank, "5", "shard", "4", "6", "slow"};
    const Words flags{"--nproc-per-node=2", "--max-restarts=1"};
    const Program a = fixed(0, flags, events), b = fixed(1, flags, events);
    const Program& hit = rank == "1" ? a : b;
    expect(hit, "killed by SIGKILL (Killed). The others continue with 1 rank on this host");
    expect(hit, "has joined in the place of rank " + rank + ": 2 ranks on this host");
    expect_undisturbed({end_of(a), end_of(b)});
  }
}

TEST_F(SurvivingHostsLong, GoOnWithoutARankOnOneOfThem) {
  const Words events{"1", "5", "gradients"};
  const Program a = fixed(0, {}, events), b = fixed(1, {}, events);
  expect(b, "No rank is left on this host: the ranks of other hosts continue");
  expect_undisturbed({end_of(a), end_of(b)});
}

// Seconds: two launchers, and a process that loads LibTorch to replace a rank.
TEST_F(SurvivingHosts, ReplaceTheirLastRank) {
  const Words all{"1", "0"};
  for (const std::string& rank : Words(all.begin(), test_size(all.begin() + 1, all.end()))) {
    const Words events{rank, "5", "shard", "2", "6", "slow"};
    const Program a = fixed(0, {"--max-restarts=1"}, events), b = fixed(1, {"--max-restarts=1"}, events);
    expect(rank == "0" ? a : b, "has joined in the place of rank " + rank + ": 1 ranks on this host");
    expect_undisturbed({end_of(a), end_of(b)});
  }
}

TEST_F(SurvivingHostsLong, FailIfNoneHasARank) {
  const Words events{"0", "5", "shard", "1", "5", "shard"};
  const Program a = fixed(0, {}, events), b = fixed(1, {}, events);
  for (const Program* host : {&a, &b}) {
    EXPECT_TRUE(has(end_of(*host, 1).err, "failed first: killed by SIGKILL")) << (*host)->err();
  }
}

// Seconds: the ranks pause in each step, so that a launcher can join in the middle.
TEST_F(SurvivingHosts, LetAHostJoinWhileTheyTrainAndGoOnWithoutIt) {
  const Words events{"0", "20", "say", "2", "6", "slow"};
  const Program a = elastic("1:2", events);
  expect(a, "in step 20");
  for (const std::string rank : {"1", "2"}) {
    const Program b = elastic("1:2", events);
    expect(b, "this host joins the running ranks of another host");
    expect(b, "has joined as rank " + rank + ": 1 ranks on this host");
    expect(a, "; its ranks join the running ones");
    if (rank == "2") {
      expect_undisturbed({end_of(a), end_of(b)});
      break;
    }
    b->send(SIGKILL);
    expect(a, "; the ranks of the other hosts continue");
  }
  EXPECT_TRUE(has(a->out(), "ranks 1 to 2")) << a->out();
  EXPECT_FALSE(has(a->err(), "the ranks start")) << "no rank was started again: " << a->err();
}

// Four have all virtual shards. The fifth one waits until the training ends.
TEST_F(SurvivingHostsLong, LetNoMoreRanksInThanTheStateAllows) {
  const Words events{"0", "20", "say", "5", "6", "slow"};
  const Program a = elastic("1:2", events, {"--nproc-per-node=4"});
  expect(a, "in step 20");
  const Program b = elastic("1:2", events);
  expect(b, "this host joins the running ranks of another host");
  expect_undisturbed({end_of(a), end_of(b)});
  EXPECT_TRUE(has(a->out(), "ranks 4 to 4")) << a->out();
}

TEST_F(SurvivingHostsLong, ReplaceALostRankOfAHostThatMayComeAndGo) {
  const Words events{"0", "20", "say", "1", "30", "shard", "2", "6", "slow"};
  const Program a = elastic("1:2", events, {"--max-restarts=1", "--nproc-per-node=2"});
  expect(a, "has joined in the place of rank 1: 2 ranks on this host");
  expect_undisturbed({end_of(a)});
}

TEST_F(SurvivingHostsLong, GiveAFreePlaceToOneThatWaits) {
  const Words events{"0", "20", "say", "3", "6", "slow"};
  const Program a = elastic("1:2", events);
  expect(a, "in step 20");
  const Program b = elastic("1:2", events);
  expect(b, "has joined as rank 1: ");
  const Program c = elastic("1:2", events);
  expect(c, "this host waits up to 600 s for a place");
  b->send(SIGTERM);
  expect(c, "has joined as rank 2: ");
  expect_undisturbed({end_of(a), end_of(c)});
}

// As soon as both of the joiner's ranks are in their first step, which its launcher may not have seen.
TEST_F(SurvivingHostsLong, GoOnWithARankThatHasJustJoined) {
  const Words events{"0", "20", "say", "2", "0", "say", "3", "0", "say", "3", "6", "slow"};
  const Words flags{"--nproc-per-node=2"};
  const Program a = elastic("1:2", events, flags);
  expect(a, "in step 20");
  const Program b = elastic("1:2", events, flags);
  EXPECT_TRUE(wait_for_two(b, "in step ")) << b->out() << b->err();
  ::kill(first_rank_of(b), SIGKILL);
  expect(b, "killed by SIGKILL (Killed). The others continue with 1 rank on this host");
  expect_undisturbed({end_of(a), end_of(b)});
}

// Ranks of either host, or the launcher of the one that does not serve, which comes back each time. At each kill
// another process has the training's state. All ranks may start again only if it is behind and receives a newer state
// at the next kill, because it has none then.
TEST_F(SurvivingHostsLong, KillsAtAnyMoment) {
  const Words events{"0", "20", "say", "all", "0", "tell", "4", "6", "slow"};
  const Words flags{"--nproc-per-node=2", "--max-restarts=99"};
  for (unsigned seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    auto [a, b] = host_and_joiner(events, flags);
    std::mt19937 random(seed);
    std::set<pid_t> killed;
    for (int kills = 0; kills < 4; ++kills) {
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 400));
      const unsigned victim = random() % 3;
      if (victim == 2) {
        EXPECT_TRUE(wait_for_state({&a}, killed)) << a->out() << a->err();
        b.reset();  // kills it
        b = elastic("1:2", events, flags);
        continue;
      }
      const Program& host = victim == 0 ? a : b;
      const pid_t pid = first_rank_of(host);
      if (pid == 0) continue;
      killed.insert(pid);
      EXPECT_TRUE(wait_for_state({&a, &b}, killed)) << a->out() << a->err() << b->out() << b->err();
      ::kill(pid, SIGKILL);
    }
    const std::vector<ProgramEnd> ends{end_of(a), end_of(b)};
    expect_undisturbed(ends);
    const std::string all = ends[0].err + ends[1].err;
    EXPECT_TRUE(!has(all, "the ranks start: ") || has(all, "all ranks that had the training's state are lost")) << all;
  }
}

// The store is gone with its host: the next host serves another one, in which the ranks that are left meet. The lost
// host is started again, and joins them.
TEST_F(SurvivingHosts, GoOnIfTheServingOneIsLost) {
  const Words events{"0", "20", "say", "1", "0", "say", "2", "6", "slow"};
  const Program a = elastic("1:2", events);
  expect(a, "in step 20");
  const Program b = elastic("1:2", events);
  expect(b, "in step ");  // before, it may not have the training's state
  a->send(SIGKILL);
  expect(b, "serves it from now on, at tcp:127.0.0.1:");
  expect(b, "; the ranks of the other hosts continue");
  const Program c = again(events);
  expect(c, "has joined as rank 2: ");
  expect_survived(b, c);
}

// All ranks have announced that they survive others, which their launchers may not have seen.
TEST_F(SurvivingHostsLong, GoOnIfOneIsLostInTheFirstSteps) {
  for (const bool serves : {true, false}) {
    const Words events{"0", "1", "say"};
    const Program a = elastic("2:2", events);
    expect(a, "1 of at least 2 hosts here");
    const Program b = elastic("2:2", events);
    expect(a, "in step 1");
    (serves ? a : b)->send(SIGKILL);
    const Program& left = serves ? b : a;
    expect(left, "; the ranks of the other hosts continue");
    expect_undisturbed({end_of(left)});
  }
}

TEST_F(SurvivingHostsLong, GoOnIfOneServingHostAfterTheOtherIsLost) {
  const Words events{"0", "20", "say", "2", "0", "say", "2", "6", "slow"};
  const Program a = elastic("1:3", events);
  expect(a, "in step 20");
  const Program b = elastic("1:3", events);
  expect(b, "has joined as rank 1: ");
  const Program c = elastic("1:3", events);
  expect(c, "in step ");
  a->send(SIGKILL);
  expect(c, "; the ranks of the other hosts continue");
  b->send(SIGKILL);
  EXPECT_TRUE(wait_for_two(c, "; the ranks of the other hosts continue")) << c->err();
  expect_survived(c, again(events, "1:3"));
}

// A rank of the host that continues is killed, and the launcher that serves, at about the same time.
TEST_F(SurvivingHostsLong, GoOnIfRanksAreLostWithTheServingOne) {
  const Words events{"0", "20", "say", "2", "0", "say", "3", "0", "say", "3", "6", "slow"};
  const Words flags{"--nproc-per-node=2", "--max-restarts=99"};
  for (unsigned seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const Program a = elastic("1:2", events, flags);
    expect(a, "in step 20");
    const Program b = elastic("1:2", events, flags);
    // Both of its ranks: one of them is killed, and the other one must have the training's state.
    EXPECT_TRUE(wait_for_two(b, "in step ")) << b->out() << b->err();
    const pid_t pid = first_rank_of(b);
    const bool is_first = random() % 2 == 0;
    if (is_first) ::kill(pid, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 60));
    a->send(SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 60));
    if (!is_first) ::kill(pid, SIGKILL);
    expect(b, "; the ranks of the other hosts continue");
    expect_survived(b, again(events, "1:2", flags));
  }
}

}  // namespace
}  // namespace lockstep

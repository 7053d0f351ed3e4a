// Tests fused updates of lockstep::on_rank_change on several hosts that lose ranks and each other. Each launcher holds
// a memory of its own, so it is a host, although all of them run on one machine.
#include <signal.h>

#include <chrono>
#include <random>
#include <string>
#include <thread>

#include "lockstep/base/processor/instruction_set.h"
#include "tests/e2e/launcher/surviving_hosts.h"
#include "tests/support/test_size.h"

namespace lockstep {
namespace {

using FusingHosts = SurvivingHosts;
using FusingHostsLong = SurvivingHosts;

// Seconds: two launchers start four ranks and a fifth, and all pause in each step, so that one dies in the middle.
TEST_F(FusingHosts, FinishAnUpdate) {
  const Words all{"writing", "gradients"};
  for (const std::string& place : Words(all.begin(), test_size(all.begin() + 1, all.end()))) {
    SCOPED_TRACE(place);
    const Words events{"fuse", "2", "5", place, "4", "6", "slow"};
    const Words flags{"--nproc-per-node=2", "--max-restarts=1"};
    const Program a = fixed(0, flags, events), b = fixed(1, flags, events);
    expect(b, "killed by SIGKILL (Killed). The others continue with 1 rank on this host");
    expect(b, "has joined in the place of rank 2: 2 ranks on this host");
    expect_undisturbed({end_of(a), end_of(b)});
  }
}

// The host's memory lives on in its launcher, but its weights do not count any more when a process comes.
TEST_F(FusingHostsLong, FinishAnUpdateWithoutTheLastRankOfAHost) {
  const Words events{"fuse", "1", "40", "writing", "2", "6", "slow"};
  const Program a = fixed(0, {"--max-restarts=2"}, events), b = fixed(1, {"--max-restarts=2"}, events);
  expect(b, "No rank is left on this host: the ranks of other hosts continue");
  expect(b, "has joined in the place of rank 1: 1 ranks on this host");
  expect_undisturbed({end_of(a), end_of(b)});
}

TEST_F(FusingHosts, FuseNothingThatTheyWouldRoundDifferently) {
  if (processor_instruction_set() == InstructionSet::Baseline) GTEST_SKIP() << "no fused multiply-add";
  const Words events{"fuse", "0", "20", "say"};
  const Program a = fixed(0, {}, events), b = fixed(1, {}, events, {{"LOCKSTEP_ISA", "baseline"}});
  expect(a, "not fused: the hosts would round the update differently");
  end_of(a, 1);
  end_of(b, 1);
}

TEST_F(FusingHostsLong, HostsAreKilledAtAnyMoment) {
  const Words events{"fuse", "0", "20", "say", "4", "6", "slow"};
  const Words flags{"--nproc-per-node=2", "--max-restarts=99"};
  for (unsigned seed = 1; seed <= 2; ++seed) {
    SCOPED_TRACE(seed);
    auto [a, b] = host_and_joiner(events, flags);
    std::mt19937 random(seed);
    for (int kills = 0; kills < 3; ++kills) {
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 400));
      b.reset();  // kills it
      b = joiner(events, flags);
    }
    expect_undisturbed({end_of(a), end_of(b)});
  }
}

}  // namespace
}  // namespace lockstep

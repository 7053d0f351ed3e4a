#include "lockstep/replicas/worker_threads.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <set>
#include <thread>

#include "lockstep/base/processor/topology.h"

namespace lockstep {
namespace {

TEST(WorkerThreads, RunEachPartOnItsOwnThreadAgainAndAgain) {
  WorkerThreads team(3);
  std::vector<std::set<std::thread::id>> threads(3);
  std::vector<int> counts(3);
  for (int round = 0; round < 2000; ++round) {
    const auto parts = static_cast<std::size_t>(1 + round % 3);
    team.run(parts, [&](std::size_t part) {
      ++counts[part];
      threads[part].insert(std::this_thread::get_id());
    });
  }
  EXPECT_EQ(counts, (std::vector<int>{2000, 1333, 666}));
  EXPECT_EQ(threads[0], (std::set<std::thread::id>{std::this_thread::get_id()}));
  EXPECT_EQ(threads[1].size(), 1U);
  EXPECT_NE(threads[1], threads[2]);
}

TEST(WorkerThreads, PartsRunAtTheSameTime) {
  WorkerThreads team(2);
  std::atomic<int> inside{0};
  team.run(2, [&](std::size_t) {
    ++inside;
    while (inside.load() < 2) std::this_thread::yield();  // ends only if both run at the same time
  });
  EXPECT_EQ(inside.load(), 2);
}

TEST(WorkerThreads, CallsFromWithinRunPartByPart) {
  WorkerThreads team(2);
  std::atomic<int> count{0};
  team.run(2, [&](std::size_t) { team.run(2, [&](std::size_t) { ++count; }); });
  EXPECT_EQ(count.load(), 4);
}

TEST(WorkerThreads, CallersWaitForEachOther) {
  WorkerThreads team(2);
  int sum = 0;  // protected only by the team
  const auto call = [&] {
    for (int i = 0; i < 500; ++i) {
      std::atomic<int> parts{0};
      team.run(2, [&](std::size_t part) {
        ++parts;
        if (part == 0) ++sum;
      });
      EXPECT_EQ(parts.load(), 2);
    }
  };
  std::thread other(call);
  call();
  other.join();
  EXPECT_EQ(sum, 1000);
}

TEST(WorkerThreads, PinsMembersAndGivesTheCallerItsCoresBack) {
  const std::vector<int> all = affinity_cores();
  WorkerThreadsOptions options;
  options.cores = {{all.front()}, {all.back()}};
  WorkerThreads team(2, options);
  std::vector<std::vector<int>> inside(2);
  team.run(2, [&](std::size_t part) { inside[part] = affinity_cores(); });
  EXPECT_EQ(inside, options.cores);
  EXPECT_EQ(affinity_cores(), all);
}

TEST(WorkerThreads, RunTheirFirstTaskInEachThread) {
  std::atomic<std::size_t> numbers{0};
  WorkerThreadsOptions options;
  options.on_start = [&](std::size_t number) { numbers += number; };
  { WorkerThreads team(4, options); }
  EXPECT_EQ(numbers.load(), 6U);
}

}  // namespace
}  // namespace lockstep

#include "bench/workers/bare_barrier.h"

#include <gtest/gtest.h>

#include <deque>
#include <thread>
#include <vector>

namespace lockstep::bench {
namespace {

struct alignas(64) Flag {
  BareBarrier::Word word{0};
};

// Each rank counts its own passes in plain memory before it arrives. Behind the barrier no other rank can be a pass
// behind, nor two ahead.
TEST(BareBarrier, LetsNoRankLeaveBeforeAllHaveArrived) {
  constexpr std::size_t kRanks = 4;
  constexpr std::uint64_t kPasses = 2000;
  std::deque<Flag> flags(kRanks), counts(kRanks);
  std::vector<BareBarrier::Word*> arrivals;
  for (Flag& flag : flags) arrivals.push_back(&flag.word);
  std::vector<int> faults(kRanks, 0);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      BareBarrier barrier(arrivals, static_cast<int>(rank), /*shares_cores=*/true);
      for (std::uint64_t pass = 1; pass <= kPasses; ++pass) {
        counts[rank].word.store(pass, std::memory_order_relaxed);
        barrier.pass();
        for (Flag& count : counts) {
          const std::uint64_t theirs = count.word.load(std::memory_order_relaxed);
          if (theirs < pass || theirs > pass + 1) ++faults[rank];
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(faults, std::vector<int>(kRanks, 0));
}

TEST(BareBarrier, LetsOneRankPassAlone) {
  Flag flag;
  BareBarrier barrier({&flag.word}, 0, /*shares_cores=*/false);
  barrier.pass();
  barrier.pass();
  EXPECT_EQ(flag.word.load(), 2U);
}

}  // namespace
}  // namespace lockstep::bench

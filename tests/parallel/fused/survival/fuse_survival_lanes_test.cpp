// Tests fused updates whose ranks die while several of their threads update, each a lane of the rank's part. The result
// must be that of one process that nothing disturbed.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <string>
#include <vector>

#include "tests/parallel/fused/survival/surviving_rank.h"
#include "tests/support/test_size.h"

namespace lockstep {
namespace {

constexpr int kThreads = 3;

std::unique_ptr<FlatOptimizer> make_adam_of_doubles(const torch::nn::Linear& model) {
  torch::nn::Linear(model)->to(torch::kDouble);
  return make_adam(model);
}

SurvivingRank::Options dying(std::vector<std::vector<int>> lost) {
  SurvivingRank::Options options;
  options.lost = std::move(lost);
  options.in_two_buckets = true;
  return options;
}

// Each death is a job of three processes with LibTorch and three threads each.
TEST(FuseSurvivalLanes, OfOneThatDies) {
  const std::vector<double> all{0.5, 0.0, 1.0};
  const std::vector<double> parts(all.begin(), all.begin() + test_size(1, 3));
  for (const Optimizers& make : {Optimizers(make_adam), Optimizers(make_adam_of_doubles)}) {
    for (const char* kind : {"weights", "max_exp_avg_sq"}) {
      for (const double part : parts) {
        SCOPED_TRACE(kind + (" at " + std::to_string(part)));
        const UniqueFd job = make_job_memory();
        const auto ends = ranks_as_processes(3, [&](const Membership& membership) {
          at::set_num_threads(kThreads);
          SurvivingRank rank(membership, make, job.get(), dying({{1}}));
          rank.train([&](SurvivingRank& self) {
            EXPECT_EQ(self.memory().lanes(), kThreads);
            if (self.rank() != 1) return;
            die_without_core();
            const OwnMemory memory = own_memory(self, kind);
            protect(memory.data, memory.bytes, part, PROT_READ);
          });
          EXPECT_EQ(rank.finished(), 1);
        });
        EXPECT_EQ(ends[1].signal, SIGSEGV) << ends[1].text;
        for (const int rank : {0, 2}) EXPECT_FALSE(ends[static_cast<std::size_t>(rank)].failed) << ends[rank].text;
      }
    }
  }
}

// Rank 0 finishes what rank 1 was at, and dies in it, too: in the same block, or later in the same lane. Other lanes
// may have been complete.
TEST(FuseSurvivalLanes, OfTwoThatDieOneAfterTheOther) {
  for (const double part : {0.3, 0.5}) {
    SCOPED_TRACE(part);
    const UniqueFd job = make_job_memory();
    const auto ends = ranks_as_processes(3, [&](const Membership& membership) {
      at::set_num_threads(kThreads);
      SurvivingRank rank(membership, make_adam_of_doubles, job.get(), dying({{1}, {0}}));
      rank.train([&](SurvivingRank& self) {
        if (self.rank() == 2) return;
        die_without_core();
        const OwnMemory own = own_memory(self, "weights");
        const std::byte* const of_rank_1 = own.data + (self.rank() == 0 ? own.bytes : 0);
        protect(of_rank_1, own.bytes, self.rank() == 0 ? part : 0.3, PROT_READ);
      });
      EXPECT_EQ(rank.finished(), 1);
    });
    EXPECT_EQ(ends[1].signal, SIGSEGV) << ends[1].text;
    EXPECT_EQ(ends[0].signal, SIGSEGV) << ends[0].text;
    EXPECT_FALSE(ends[2].failed) << ends[2].text;
  }
}

// All ranks die, each in a lane of its own, and one with one thread comes after them.
TEST(FuseSurvivalLanes, OfAllWhoDie) {
  for (const Optimizers& make : {Optimizers(make_adam), Optimizers(make_adam_of_doubles)}) {
    const UniqueFd job = make_job_memory();
    ranks_as_processes(3, [&](const Membership& membership) {
      at::set_num_threads(kThreads);
      SurvivingRank rank(membership, make, job.get(), dying({}));
      rank.train([&](SurvivingRank& self) {
        die_without_core();
        const OwnMemory memory = own_memory(self, "exp_avg");
        protect(memory.data, memory.bytes, 0.4 * self.rank() + 0.1, PROT_READ);
      });
    });
    run_ranks_as_processes(1, [&](const Membership& membership) {
      SurvivingRank::Options options = dying({});
      options.continues = true;
      SurvivingRank rank(membership, make, job.get(), options);
      rank.train([](SurvivingRank& self) { FAIL() << "rank " << self.rank() << " makes the update again"; });
    });
  }
}

}  // namespace
}  // namespace lockstep

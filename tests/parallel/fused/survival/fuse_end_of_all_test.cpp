// Tests fused updates whose ranks all die, and ranks that come later. They find weights and state in the job's memory,
// and finish an update that was decided. The result must be that of one process that nothing disturbed.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "tests/parallel/fused/survival/surviving_rank.h"

namespace lockstep {
namespace {

// As many ranks follow, or more, or fewer.
TEST(FuseEndOfAll, AllDieInTheUpdate) {
  for (const char* kind : {"weights", "exp_avg"}) {
    for (const int successors : {1, 2, 4}) {
      SCOPED_TRACE(kind + (" and " + std::to_string(successors)) + " follow");
      const UniqueFd job = make_job_memory();
      const auto ends = ranks_as_processes(3, [&](const Membership& membership) {
        SurvivingRank rank(membership, make_adam, job.get(), {});
        rank.train([&](SurvivingRank& self) {
          die_without_core();
          const OwnMemory memory = own_memory(self, kind);
          protect(memory.data, memory.bytes, 0.3 * self.rank(), PROT_READ);
        });
      });
      EXPECT_TRUE(std::any_of(ends.begin(), ends.end(), [](const auto& end) { return end.signal == SIGSEGV; }));
      run_ranks_as_processes(successors, [&](const Membership& membership) {
        SurvivingRank rank(membership, make_adam, job.get(), {{}, Clip::InStep, true, /*continues=*/true});
        rank.train([](SurvivingRank& self) { FAIL() << "rank " << self.rank() << " makes the update again"; });
      });
    }
  }
}

TEST(FuseEndOfAll, AllDieBeforeTheUpdate) {
  const UniqueFd job = make_job_memory();
  ranks_as_processes(3, [&](const Membership& membership) {
    SurvivingRank rank(membership, make_adam, job.get(), {});
    rank.train([](SurvivingRank&) { ::kill(::getpid(), SIGKILL); });
  });
  run_ranks_as_processes(3, [&](const Membership& membership) {
    SurvivingRank rank(membership, make_adam, job.get(), {{}, Clip::InStep, true, /*continues=*/true});
    rank.train([](SurvivingRank&) {});
  });
}

}  // namespace
}  // namespace lockstep

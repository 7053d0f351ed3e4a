// Tests fused updates whose ranks all die, and ranks that come later. They find weights and state in the job's memory,
// and finish an update that was decided. The result must be that of one process that nothing disturbed.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
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

// Two ranks continue with what three have left.
void expect_continuation(const UniqueFd& job) {
  run_ranks_as_processes(2, [&](const Membership& membership) {
    SurvivingRank rank(membership, make_adam, job.get(), {{}, Clip::InStep, true, /*continues=*/true});
    rank.train([](SurvivingRank&) {});
  });
}

// All elements are written then, and how often each parameter was updated is not.
TEST(FuseEndOfAll, AllDieWhereTheyCountTheUpdate) {
  const UniqueFd job = make_job_memory();
  const auto ends = ranks_as_processes(3, [&](const Membership& membership) {
    SurvivingRank rank(membership, make_adam, job.get(), {});
    rank.train([&](SurvivingRank& self) {
      die_without_core();
      const std::int64_t* const counts = self.memory().steps(kDeadlyStep + 1);
      const auto page = static_cast<std::uintptr_t>(::getpagesize());
      const auto first = reinterpret_cast<std::uintptr_t>(counts) / page * page;
      ASSERT_EQ(::mprotect(reinterpret_cast<void*>(first), page, PROT_READ), 0);
    });
  });
  EXPECT_TRUE(std::any_of(ends.begin(), ends.end(), [](const auto& end) { return end.signal == SIGSEGV; }));
  EXPECT_EQ(JobMemoryMap(job.get()).header().number.load(), static_cast<std::uint64_t>(kDeadlyStep));
  expect_continuation(job);
}

// All ranks die in an update, and of two that follow, the second one after its `call`th exchange.
// @return  how many updates the memory has then
std::uint64_t updates_after(int call) {
  SCOPED_TRACE("exchange " + std::to_string(call));
  const UniqueFd job = make_job_memory();
  ranks_as_processes(3, [&](const Membership& membership) {
    SurvivingRank rank(membership, make_adam, job.get(), {});
    rank.train([&](SurvivingRank& self) {
      die_without_core();
      const OwnMemory memory = own_memory(self, "weights");
      protect(memory.data, memory.bytes, 0.3 * self.rank(), PROT_READ);
    });
  });
  const auto shared = shm::Mapping::of_file(shm::create_segment(shm::page_bytes()).get(), shm::page_bytes());
  auto* const counters = reinterpret_cast<std::atomic<int>*>(shared->data());
  ranks_as_processes(2, [&](const Membership& membership) {
    SurvivingRank rank(membership, make_adam, job.get(), {{}, Clip::InStep, true, /*continues=*/true, "shm", counters});
    if (rank.rank() == 1) rank.failing_group().fail_after(call);
    rank.train([](SurvivingRank&) {});
  });
  const std::uint64_t updates = JobMemoryMap(job.get()).header().number.load();
  expect_continuation(job);
  return updates;
}

// When one rank has done its part of what is left of the update, and the other one has not.
TEST(FuseEndOfAll, OneThatFollowsDiesWhileItFinishesTheUpdate) {
  constexpr std::uint64_t kBefore = kDeadlyStep;
  EXPECT_EQ(updates_after(0), kBefore);
  int call = 1;
  while (call < 50 && updates_after(call) == kBefore) ++call;
  for (const int more : {1, 2}) EXPECT_EQ(updates_after(call + more), kBefore + 1);
}

TEST(FuseEndOfAll, AnotherModelIsRefused) {
  const UniqueFd job = make_job_memory();
  ranks_as_processes(2, [&](const Membership& membership) {
    SurvivingRank rank(membership, make_adam, job.get(), {});
    rank.train([](SurvivingRank&) { ::kill(::getpid(), SIGKILL); });
  });
  const JobMemoryMap memory(job.get());
  memory.header().shape.store(memory.header().shape.load() + 1);
  const auto ends = ranks_as_processes(2, [&](const Membership& membership) {
    SurvivingRank rank(membership, make_adam, job.get(), {{}, Clip::InStep, true, /*continues=*/true});
    rank.train([](SurvivingRank&) {});
  });
  for (const RankOutcome& end : ends) {
    EXPECT_NE(end.text.find("has the state of another model (5 virtual shards"), std::string::npos) << end.text;
  }
}

}  // namespace
}  // namespace lockstep

// Tests fused updates whose ranks die in the middle of an update. The memory that the victim updates is protected
// against its writes or reads before the step, so it dies at a known instruction of the update, with half a block
// written. The result must be that of one process that nothing disturbed and that fuses nothing.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>

#include "lockstep/optim/sgd.h"
#include "tests/parallel/fused/survival/surviving_rank.h"

namespace lockstep {
namespace {

std::unique_ptr<FlatOptimizer> make_sgd(const torch::nn::Linear& model) {
  return std::make_unique<SGD>(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
}

struct FatalPlace {
  std::string kind;
  double part;
  int protection;
};

void expect_survival(const Optimizers& make, const FatalPlace& place, Clip clip = Clip::InStep) {
  SCOPED_TRACE(place.kind + " at " + std::to_string(place.part));
  for (const bool memory_stays : {true, false}) {
    const UniqueFd job = make_job_memory();
    const auto ends = ranks_as_processes(3, [&](const Membership& membership) {
      SurvivingRank rank(membership, make, job.get(), {{{1}}, clip, memory_stays});
      rank.train([&](SurvivingRank& self) {
        if (self.rank() != 1) return;
        die_without_core();
        const OwnMemory memory = own_memory(self, place.kind);
        protect(memory.data, memory.bytes, place.part, place.protection);
      });
      EXPECT_EQ(rank.finished(), 1);
    });
    EXPECT_EQ(ends[1].signal, SIGSEGV) << ends[1].text;
    for (const int rank : {0, 2}) EXPECT_FALSE(ends[static_cast<std::size_t>(rank)].failed) << ends[rank].text;
  }
}

// Seconds: sixteen groups of processes, each of which loses a rank.
TEST(FuseSurvival, DiesWhereItWrites) {
  for (const char* kind : {"weights", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"}) {
    for (const double part : {0.0, 0.3, 0.6, 1.0}) expect_survival(make_adam, {kind, part, PROT_READ});
  }
}

TEST(FuseSurvival, DiesWhereItSaves) {
  for (const double part : {0.2, 0.9}) expect_survival(make_adam, {"exp_avg", part, PROT_NONE});
}

TEST(FuseSurvival, WithMomentum) {
  for (const double part : {0.1, 0.5}) expect_survival(make_sgd, {"momentum_buffer", part, PROT_READ});
}

TEST(FuseSurvival, WhereverGradientsAreClipped) {
  for (const Clip clip : {Clip::Never, Clip::Before}) expect_survival(make_adam, {"exp_avg", 0.5, PROT_READ}, clip);
}

TEST(FuseSurvival, DiesBeforeTheUpdate) {
  const UniqueFd job = make_job_memory();
  const auto ends = ranks_as_processes(3, [&](const Membership& membership) {
    SurvivingRank rank(membership, make_adam, job.get(), {{{1}}});
    rank.train([&](SurvivingRank& self) {
      if (self.rank() == 1) ::kill(::getpid(), SIGKILL);
    });
    EXPECT_EQ(rank.finished(), 0);
  });
  for (const int rank : {0, 2}) EXPECT_FALSE(ends[static_cast<std::size_t>(rank)].failed) << ends[rank].text;
}

// Rank 0 finishes what rank 1 was at, and dies in it, too.
TEST(FuseSurvival, DiesWhileItFinishesForAnother) {
  const UniqueFd job = make_job_memory();
  const auto ends = ranks_as_processes(3, [&](const Membership& membership) {
    SurvivingRank rank(membership, make_adam, job.get(), {{{1}, {0}}});
    rank.train([&](SurvivingRank& self) {
      if (self.rank() == 2) return;
      die_without_core();
      const OwnMemory own = own_memory(self, "weights");
      const std::byte* of_rank_1 = own.data + (self.rank() == 0 ? own.bytes : 0);
      protect(of_rank_1, own.bytes, self.rank() == 0 ? 0.7 : 0.4, PROT_READ);
    });
    EXPECT_EQ(rank.finished(), 1);
  });
  EXPECT_EQ(ends[0].signal, SIGSEGV) << ends[0].text;
  EXPECT_EQ(ends[1].signal, SIGSEGV) << ends[1].text;
  EXPECT_FALSE(ends[2].failed) << ends[2].text;
}

// The others give it up, and take their memory back from it, before they end it.
TEST(FuseSurvival, StandsStillInTheUpdate) {
  const UniqueFd job = make_job_memory();
  RanksOptions options;
  options.timeout = std::chrono::milliseconds(2000);
  const auto ends = ranks_as_processes(
      3,
      [&](const Membership& membership) {
        SurvivingRank rank(membership, make_adam, job.get(), {{{1}}});
        rank.train([&](SurvivingRank& self) {
          if (self.rank() != 1) return;
          ::signal(SIGSEGV, [](int) { ::raise(SIGSTOP); });
          const OwnMemory memory = own_memory(self, "exp_avg");
          protect(memory.data, memory.bytes, 0.0, PROT_READ);  // near pages that are partly another rank's
        });
        EXPECT_EQ(rank.finished(), 1);
      },
      options);
  for (const int rank : {0, 2}) EXPECT_FALSE(ends[static_cast<std::size_t>(rank)].failed) << ends[rank].text;
}

TEST(FuseSurvival, RefusesWhatOthersCouldNotFinish) {
  const UniqueFd job = make_job_memory();
  run_ranks_as_processes(2, [&](const Membership& membership) {
    const Group group = make_communicator("shm", membership);
    const torch::nn::Linear model = make_linear(8, 4);
    const auto optimizer = make_adam(model);
    const UpdateRescue rescue(*optimizer, {}, {std::make_shared<JobMemoryMap>(job.get())});
    DistributedDataParallel<torch::nn::Linear> plain(model, fuse_on(group));
    EXPECT_EQ(plain.fuse(*optimizer).mode(), FuseMode::Off);
    EXPECT_NE(plain.fused_step().reason().find("without virtual shards"), std::string::npos)
        << plain.fused_step().reason();
  });
}

}  // namespace
}  // namespace lockstep

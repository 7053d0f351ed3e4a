// Tests what a fused optimizer refuses, and ranks that die or disagree.
#include <gtest/gtest.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <chrono>

#include "lockstep/optim/adam.h"
#include "lockstep/optim/grad_scaler.h"
#include "lockstep/optim/sgd.h"
#include "tests/parallel/fused/fuse_ranks.h"
#include "tests/support/pretended_hosts.h"

namespace lockstep {
namespace {

using torch::nn::Linear;
using torch::optim::AdamOptions;
using torch::optim::SGDOptions;

// Kills this process after `delay`, whatever it is doing.
void kill_me_after(std::chrono::nanoseconds delay) {
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  timer_t timer{};
  ASSERT_EQ(::timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
  itimerspec when{};
  when.it_value.tv_nsec = delay.count();
  ASSERT_EQ(::timer_settime(timer, 0, &when, nullptr), 0);
}

// A layer, its wrapper, and an optimizer that can be fused with it.
template <typename Optimizer, typename Options>
struct FuseSubject {
  explicit FuseSubject(const Group& group, int in = 4, int out = 4)
      : model(make_linear(in, out)), ddp(model, fuse_on(group)), optimizer(model->parameters(), Options(0.1)) {}
  Linear model;
  DistributedDataParallel<Linear> ddp;
  Optimizer optimizer;
};
using FuseWithAdam = FuseSubject<Adam, AdamOptions>;
using FuseWithSgd = FuseSubject<SGD, SGDOptions>;

// A group of the engine; over "hierarchical", ranks are on two pretended hosts.
Group failing_group(const std::string& engine, const Membership& membership) {
  if (engine == "hierarchical") return make_communicator("", on_two_hosts(membership));
  return make_communicator(engine, membership);
}

int failing_world(const std::string& engine) { return engine == "hierarchical" ? 4 : 3; }

class FuseInProcesses : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Engines, FuseInProcesses, ::testing::Values("shm"),
                         [](const auto& test) { return std::string(test.param); });
INSTANTIATE_TEST_SUITE_P(EnginesLong, FuseInProcesses, ::testing::Values("gloo", "hierarchical"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(FuseInProcesses, NamesARankThatDiesBetweenSteps) {
  const auto ends = ranks_as_processes(failing_world(GetParam()), [](const Membership& membership) {
    const Group group = failing_group(GetParam(), membership);
    FuseWithAdam it(group, 20, 4);
    it.ddp.fuse(it.optimizer);
    for (int step = 0; step < 3; ++step) {
      it.ddp(fuse_batch(group->rank(), step, 20)).sum().backward();
      if (step == 2 && group->rank() == 1) ::kill(::getpid(), SIGKILL);
      it.optimizer.step();
    }
  });
  EXPECT_EQ(ends[1].signal, SIGKILL);
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    if (rank == 1) continue;
    EXPECT_TRUE(ends[rank].failed);
    EXPECT_NE(ends[rank].text.find("rank 1"), std::string::npos) << ends[rank].text;
  }
}

TEST_P(FuseInProcesses, NamesARankThatIsKilledDuringAStep) {
  constexpr int kSteps = 2000;  // the timer goes off in one of them
  for (const int delay_us : {200, 900, 2500, 7000, 20000}) {
    const auto ends = ranks_as_processes(failing_world(GetParam()), [&](const Membership& membership) {
      const Group group = failing_group(GetParam(), membership);
      FuseWithAdam it(group, 512, 512);
      it.ddp.fuse(it.optimizer);
      for (auto& parameter : it.model->parameters()) parameter.mutable_grad() = torch::ones_like(parameter);
      it.optimizer.step();
      if (group->rank() == 1) kill_me_after(std::chrono::microseconds(delay_us));
      for (int step = 0; step < kSteps; ++step) it.optimizer.step();
    });
    EXPECT_EQ(ends[1].signal, SIGKILL);
    for (std::size_t rank = 0; rank < ends.size(); ++rank) {
      if (rank == 1) continue;
      EXPECT_TRUE(ends[rank].failed);
      EXPECT_EQ(ends[rank].signal, 0) << "rank " << rank;
      EXPECT_FALSE(ends[rank].timed_out) << ends[rank].text;
      EXPECT_NE(ends[rank].text.find("rank 1"), std::string::npos) << ends[rank].text;
    }
  }
}

TEST(FuseRefusal, TellsWhyItChangesNothing) {
  fuse_ranks("thread", 2, [](Group group) {
    FuseWithSgd it(group);
    it.ddp.register_comm_hook(fp16_compress_hook());
    EXPECT_EQ(it.ddp.fuse(it.optimizer).mode(), FuseMode::Off);
    EXPECT_NE(it.ddp.fused_step().reason().find("communication hook"), std::string::npos);
    it.ddp(fuse_batch(group->rank(), 0, 4)).sum().backward();
    it.optimizer.step();

    Linear half = make_linear(4, 4);
    half->to(torch::kBFloat16);
    DistributedDataParallel halves(half, fuse_on(group));
    SGD half_optimizer(half->parameters(), SGDOptions(0.1));
    EXPECT_EQ(halves.fuse(half_optimizer).mode(), FuseMode::Off);
    EXPECT_NE(halves.fused_step().reason().find("fp32"), std::string::npos);
  });
}

TEST(FuseRefusal, RefusesWhatMakesNoSense) {
  fuse_ranks("thread", 2, [](Group group) {
    FuseWithSgd it(group);
    const Linear other = make_linear(4, 4);
    SGD stranger(other->parameters(), SGDOptions(0.1));
    EXPECT_NE(fuse_error([&] { it.ddp.fuse(stranger); }).find("none of the module's parameters"), std::string::npos);
    it.ddp.fuse(it.optimizer);
    EXPECT_NE(fuse_error([&] { it.ddp.fuse(it.optimizer); }).find("fused already"), std::string::npos);
    EXPECT_NE(fuse_error([&] { it.ddp.register_comm_hook(noop_hook()); }).find("fused"), std::string::npos);
    GradScaler scaler;
    EXPECT_NE(fuse_error([&] { scaler.unscale_(it.optimizer); }).find("fused optimizer"), std::string::npos);
    torch::serialize::OutputArchive archive;
    EXPECT_NE(fuse_error([&] { it.optimizer.save(archive); }).find("named_state"), std::string::npos);
    EXPECT_NE(fuse_error([&] { it.optimizer.save(archive); }).find("call ddp.fused_step().unfuse()"),
              std::string::npos);
    torch::optim::SGD strange(it.model->parameters(), SGDOptions(0.1));
    torch::optim::Optimizer& of_any_kind = strange;
    EXPECT_NE(fuse_error([&] { it.ddp.fuse(of_any_kind); }).find("lockstep::SGD"), std::string::npos);
  });
}

// Its wrapper is gone, so unfuse would be no advice.
TEST(FuseRefusal, RefusesAnOptimizerThatHasAPartOfItsStateAlone) {
  fuse_ranks("thread", 2, [](Group group) {
    Linear model = make_linear(4, 4);
    SGD optimizer(model->parameters(), SGDOptions(0.1).momentum(0.9));
    {
      DistributedDataParallel ddp(model, fuse_on(group));
      ddp.fuse(optimizer);
    }
    DistributedDataParallel next(model, fuse_on(group));
    const std::string text = fuse_error([&] { next.fuse(optimizer); });
    EXPECT_NE(text.find("holds a part of the optimizer's state"), std::string::npos) << text;
    EXPECT_NE(text.find("build a new optimizer"), std::string::npos) << text;
  });
}

TEST(FuseRefusal, RefusesRanksWithOtherParameters) {
  fuse_ranks("thread", 2, [](Group group) {
    const Linear model = make_linear(4, 4);
    auto options = fuse_on(group);
    options.bucket_cap_mb = 0.00001;  // each parameter in its own bucket
    DistributedDataParallel ddp(model, options);
    std::vector<at::Tensor> parameters{model->weight};
    if (group->rank() == 0) parameters.push_back(model->bias);
    SGD optimizer(parameters, SGDOptions(0.1));
    EXPECT_NE(fuse_error([&] { ddp.fuse(optimizer); }).find("bias"), std::string::npos);
  });
}

TEST(FuseRefusal, NamesStepsThatDiffer) {
  fuse_ranks("thread", 2, [](Group group) {
    FuseWithSgd it(group);
    it.ddp.fuse(it.optimizer);
    it.ddp(fuse_batch(group->rank(), 0, 4)).sum().backward();
    StepOptions options;
    options.max_norm = 1 + group->rank();
    EXPECT_NE(fuse_error([&] { it.optimizer.step_with(options); }).find("disagree"), std::string::npos);
  });
}

TEST(FuseRefusal, NamesARankThatStepsWhileAnotherDoesNot) {
  fuse_ranks("thread", 2, [](Group group) {
    FuseWithSgd it(group);
    it.ddp.fuse(it.optimizer);
    const std::string text = fuse_error([&] {
      if (group->rank() == 0) {
        it.optimizer.step();
      } else {
        group->barrier();
      }
    });
    EXPECT_NE(text.find("disagree"), std::string::npos) << text;
  });
}

TEST(FuseRefusal, NamesAParameterThatWasMoved) {
  fuse_ranks("thread", 1, [](Group group) {
    FuseWithSgd it(group);
    it.ddp.fuse(it.optimizer);
    it.ddp(fuse_batch(0, 0, 4)).sum().backward();
    it.model->bias.set_data(torch::zeros({4}));
    EXPECT_NE(fuse_error([&] { it.optimizer.step(); }).find("\"bias\" was moved"), std::string::npos);
  });
}

}  // namespace
}  // namespace lockstep

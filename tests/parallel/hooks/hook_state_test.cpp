// Tests the state that communication hooks keep from step to step: an infinite gradient does not stay in it, and a
// resumed training restores it.
#include <gtest/gtest.h>

#include <limits>

#include "lockstep/optim/grad_scaler.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/parallel/power_sgd_hook.h"
#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

using torch::nn::Linear;
using KeepingHook = std::unique_ptr<CommunicationHook>;

struct KeepingCase {
  const char* name;
  KeepingHook (*make)();
};

KeepingHook power_of_rank_two(bool warm_start, std::int64_t start) {
  PowerSGDOptions options;
  options.matrix_approximation_rank = 2;
  options.start_powerSGD_iter = start;
  options.warm_start = warm_start;
  return power_sgd_hook(options);
}

const KeepingCase kKeepingCases[] = {
    {"Int8", [] { return int8_compress_hook(); }},
    {"PowerSgd", [] { return power_of_rank_two(true, 0); }},
    {"PowerSgdWithoutWarmStart", [] { return power_of_rank_two(false, 0); }},
    {"PowerSgdThatBeginsLate", [] { return power_of_rank_two(true, 6); }},
};

class KeepingHooks : public ::testing::TestWithParam<KeepingCase> {};

INSTANTIATE_TEST_SUITE_P(Table, KeepingHooks, ::testing::ValuesIn(kKeepingCases),
                         [](const auto& test) { return std::string(test.param.name); });

// Two buckets of a step, each with a matrix and a tail.
std::vector<GradBucket> two_buckets(int rank, int step) {
  std::vector<GradBucket> buckets(2);
  for (std::size_t i = 0; i < 2; ++i) {
    GradBucket& bucket = buckets[i];
    bucket.index = i;
    bucket.is_last = i == 1;
    bucket.buffer = (torch::arange(40 * 30 + 7, torch::kFloat) + 13 * rank + 5 * step).square().sin();
    bucket.gradients = {bucket.buffer.narrow(0, 0, 1200).view({40, 30}), bucket.buffer.narrow(0, 1200, 7)};
  }
  return buckets;
}

// Calls the hook as Reducer does: all buckets are started before the first one is finished.
void run_hook(CommunicationHook& hook, std::vector<GradBucket>& buckets, Communicator& group) {
  std::vector<std::shared_ptr<Work>> works;
  for (GradBucket& bucket : buckets) works.push_back(hook.start(bucket, group));
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    if (works[i]) works[i]->wait();
    if (const auto second = hook.start_second(buckets[i], group)) second->wait();
    hook.finish(buckets[i], group);
  }
}

bool all_are_finite(const std::vector<GradBucket>& buckets) {
  for (const GradBucket& bucket : buckets) {
    if (!at::isfinite(bucket.buffer).all().item<bool>()) return false;
  }
  return true;
}

TEST_P(KeepingHooks, ForgetAGradientThatIsNoNumber) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    for (const int world_size : {2, 3}) {
      fuse_ranks("thread", world_size, [bad](Group group) {
        const KeepingHook hook = GetParam().make();
        for (int step = 0; step < 9; ++step) {
          auto buckets = two_buckets(group->rank(), step);
          if (step == 7 && group->rank() == 1) buckets[1].buffer[3] = bad;
          run_hook(*hook, buckets, *group);
          EXPECT_EQ(all_are_finite(buckets), step != 7) << "step " << step;
          EXPECT_EQ(at::isfinite(buckets[1].buffer[3]).item<bool>(), step != 7);
        }
      });
    }
  }
}

// The residual of a skipped step is dropped: the next step equals a new hook's.
TEST(KeepingHook, OfInt8IsAsNewAfterAStepThatIsLeftOut) {
  fuse_ranks("thread", 3, [](Group group) {
    const KeepingHook hook = int8_compress_hook(), fresh = int8_compress_hook();
    for (int step = 0; step < 3; ++step) {
      auto buckets = two_buckets(group->rank(), step);
      if (step == 1 && group->rank() == 2) buckets[1].buffer[3] = NAN;
      run_hook(*hook, buckets, *group);
      if (step < 2) continue;
      auto alone = two_buckets(group->rank(), step);
      run_hook(*fresh, alone, *group);
      for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(torch::equal(buckets[i].buffer, alone[i].buffer));
    }
  });
}

TEST_P(KeepingHooks, TrainOnBehindAGradScaler) {
  fuse_ranks("thread", 2, [](Group group) {
    const Linear model = make_linear(40, 30);
    DistributedDataParallel ddp(model, fuse_on(group));
    ddp.register_comm_hook(GetParam().make());
    SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05));
    GradScaler scaler;
    double first = 0, last = 0;
    for (int step = 0; step < 30; ++step) {
      optimizer.zero_grad();
      at::Tensor input = fuse_batch(group->rank(), 0, 40);
      if (step == 8 && group->rank() == 1) input[0][3] = INFINITY;
      const at::Tensor loss = ddp(input).pow(2).mean();
      scaler.scale(loss).backward();
      EXPECT_EQ(scaler.step(optimizer), step != 8) << step;
      scaler.update();
      if (step == 0) first = loss.item<double>();
      last = loss.item<double>();
    }
    EXPECT_EQ(scaler.get_scale(), 32768);
    EXPECT_LT(last, 0.5 * first);
  });
}

TEST_P(KeepingHooks, ContinueBitForBitFromTheirState) {
  for (const int world_size : {2, 3}) {
    fuse_ranks("thread", world_size, [](Group group) {
      for (const int stopped_after : {0, 3, 8}) {
        const KeepingHook straight = GetParam().make(), before = GetParam().make(), after = GetParam().make();
        for (int step = 0; step < 12; ++step) {
          if (step == stopped_after) after->load_state(before->state());
          auto want = two_buckets(group->rank(), step), got = two_buckets(group->rank(), step);
          if (step == 7) want[0].buffer[0] = got[0].buffer[0] = NAN;
          run_hook(*straight, want, *group);
          run_hook(step < stopped_after ? *before : *after, got, *group);
          if (step == 7) continue;
          for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(torch::equal(got[i].buffer, want[i].buffer)) << step;
        }
      }
    });
  }
}

TEST(KeepingHook, RefusesTheStateOfAnother) {
  fuse_ranks("thread", 2, [](Group group) {
    const KeepingHook int8 = int8_compress_hook(), power = power_of_rank_two(true, 0);
    for (CommunicationHook* hook : {int8.get(), power.get()}) {
      auto buckets = two_buckets(group->rank(), 0);
      run_hook(*hook, buckets, *group);
    }
    EXPECT_NE(fuse_error([&] { fp16_compress_hook()->load_state(int8->state()); }).find("keeps no state"),
              std::string::npos);
    const KeepingHook fresh = int8_compress_hook();
    fresh->load_state(power->state());
    auto buckets = two_buckets(group->rank(), 1);
    EXPECT_NE(fuse_error([&] { fresh->start(buckets[0], *group); }).find("the communication hook int8"),
              std::string::npos);
    const Linear model = make_linear(4, 4);
    DistributedDataParallel ddp(model, fuse_on(group));
    EXPECT_NE(fuse_error([&] { ddp.load_comm_hook_state(int8->state()); }).find("none is registered"),
              std::string::npos);
  });
}

}  // namespace
}  // namespace lockstep

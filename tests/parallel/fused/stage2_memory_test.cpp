// Tests that a rank has memory for a few buckets of gradients alone if gradients belong to their owners (stage 2).
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/optim/sgd.h"
#include "tests/parallel/fused/stage2.h"
#include "tests/support/memory/kernel_memory.h"
#include "tests/support/pretended_hosts.h"

namespace lockstep {
namespace {

constexpr int kLayers = 16;
constexpr int kWidth = 512;  // a layer's weights are 1 MiB, and a bucket
constexpr double kLayerMib = 4.0 * kWidth * kWidth / (1 << 20);

// The shared memory that this process has touched, in MiB; a page that R processes have touched counts 1/R in each.
// Negative if the kernel does not say.
double proportional_mib_of_shared_memory() { return mib_by_kernel("smaps_rollup", "Pss_Shmem"); }

double sum_over_ranks(const Group& group, double value) {
  at::Tensor sum = torch::full({1}, value, torch::kDouble);
  group->all_reduce(sum);
  return sum.item<double>();
}

// What a step leaves of shared memory on all ranks together, beyond what was there before, in MiB.
double shared_mib_of_a_step(const Group& group, FuseOptions how) {
  const double before = sum_over_ranks(group, proportional_mib_of_shared_memory());
  torch::nn::Sequential model;
  for (int i = 0; i < kLayers; ++i) {
    model->push_back(torch::nn::Linear(torch::nn::LinearOptions(kWidth, kWidth).bias(false)));
  }
  DistributedDataParallelOptions options = fuse_on(group);
  options.bucket_cap_mb = kLayerMib;
  DistributedDataParallel ddp(model, options);
  SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01));
  EXPECT_EQ(ddp.fuse(optimizer, how).mode(), FuseMode::SharedWeights);
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    ddp(fuse_batch(group->rank(), step, kWidth)).pow(2).mean().backward();
    EXPECT_EQ(ddp.last_step().buckets, static_cast<std::size_t>(how.stage == 2 ? kLayers : 0));
    EXPECT_LE(ddp.last_step().waited_for_slot_s, ddp.last_step().waited_s);
    optimizer.step();
  }
  for (const at::Tensor& parameter : model->parameters()) {
    EXPECT_TRUE(parameter.isfinite().all().item<bool>());  // reads every page
  }
  group->barrier();
  const double after = sum_over_ranks(group, proportional_mib_of_shared_memory());
  group->barrier();
  return after - before;
}

TEST(Stage2Memory, IsThatOfASlotForEachOfAFewBuckets) {
  if (proportional_mib_of_shared_memory() < 0) GTEST_SKIP() << "the kernel has no /proc/self/smaps_rollup";
  run_ranks_as_processes(2, [](const Membership& membership) {
    const Group group = make_communicator("shm", membership);
    shared_mib_of_a_step(group, stage_2(3));  // what the engine itself takes once
    const double weights = kLayers * kLayerMib;
    EXPECT_NEAR(shared_mib_of_a_step(group, stage_2(3)), weights + 2 * 3 * kLayerMib, kLayerMib);
    EXPECT_NEAR(shared_mib_of_a_step(group, FuseOptions()), weights + 2 * weights, kLayerMib);
  });
}

TEST(Stage2Memory, IsAsSmallOnEachOfSeveralHosts) {
  if (proportional_mib_of_shared_memory() < 0) GTEST_SKIP() << "the kernel has no /proc/self/smaps_rollup";
  run_ranks_as_processes(4, [](const Membership& membership) {
    const Group group = make_communicator("", on_two_hosts(membership));
    shared_mib_of_a_step(group, stage_2(2));
    const double weights = 2 * kLayers * kLayerMib;  // a copy on each host
    EXPECT_NEAR(shared_mib_of_a_step(group, stage_2(2)), weights + 4 * 2 * kLayerMib, kLayerMib);
  });
}

}  // namespace
}  // namespace lockstep

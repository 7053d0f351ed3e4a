// Counts what crosses the links between hosts in fused and in separate steps.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <cstdlib>

#include "lockstep/optim/sgd.h"
#include "tests/parallel/fused/fuse_ranks.h"
#include "tests/support/sent_bytes.h"
#include "tools/hosts/network_hosts.h"

namespace lockstep {
namespace {

constexpr int kTrafficWidth = 1024;
constexpr int kTrafficSteps = 6;

// What this host sends in `kTrafficSteps` steps, per step.
double bytes_of_a_step(const Group& group, bool fused, FuseOptions how) {
  const torch::nn::Linear model = make_linear(kTrafficWidth, kTrafficWidth);
  DistributedDataParallel ddp(model, fuse_on(group));
  SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01));
  if (fused) {
    EXPECT_EQ(ddp.fuse(optimizer, how).mode(), how.share_weights ? FuseMode::SharedWeights : FuseMode::ShardedState);
  }
  const auto step = [&](int number) {
    ddp(fuse_batch(group->rank(), number, kTrafficWidth)).pow(2).mean().backward();
    optimizer.step();
    optimizer.zero_grad();
  };
  step(0);
  group->barrier();
  const std::int64_t before = bytes_sent_by_this_host();
  group->barrier();
  for (int number = 1; number <= kTrafficSteps; ++number) step(number);
  group->barrier();
  const std::int64_t after = bytes_sent_by_this_host();
  group->barrier();
  return static_cast<double>(after - before) / kTrafficSteps;
}

TEST(FuseOnHosts, SendsNoMoreThanSeparateSteps) {
  if (const auto reason = NetworkHosts::why_not()) GTEST_SKIP() << *reason;
  const NetworkHosts hosts(2, "1gbit");
  RanksOptions options;
  options.prepare = [&hosts](int rank) {
    hosts.enter(rank / 2);
    ::setenv("MASTER_ADDR", hosts.address(0).c_str(), 1);
  };
  run_ranks_as_processes(
      4,
      [](const Membership& membership) {
        const Group group = make_communicator("", membership);
        ASSERT_STREQ(group->engine(), "hierarchical");
        const double separate = bytes_of_a_step(group, false, {});
        const double weights = 4.0 * kTrafficWidth * (kTrafficWidth + 1);
        EXPECT_GT(separate, weights) << "the counter does not count what is sent";
        FuseOptions own_weights;
        own_weights.share_weights = false;
        for (const FuseOptions& how : {FuseOptions(), own_weights}) {
          const double fused = bytes_of_a_step(group, true, how);
          // Beside gradients and weights, a fused step sends one small message: its agreement.
          EXPECT_LE(fused, 1.01 * separate) << (how.share_weights ? "shared weights" : "weights of its own");
        }
      },
      options);
}

}  // namespace
}  // namespace lockstep

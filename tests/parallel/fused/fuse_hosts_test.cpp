// Tests the fused update over hosts with several ranks each: all ranks share the optimizer's state.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/optim/adam.h"
#include "tests/parallel/fused/fuse_ranks.h"
#include "tests/support/pretended_hosts.h"

namespace lockstep {
namespace {

// The weights after some steps, and the number of state elements that this rank keeps per weight.
std::pair<at::Tensor, double> train_on_hosts(const Group& group, bool fused) {
  const torch::nn::Linear model = make_linear(640, 40);
  DistributedDataParallel ddp(model, fuse_on(group));
  Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01));
  if (fused) {
    EXPECT_EQ(ddp.fuse(optimizer), FuseMode::ShardedState);
  }
  for (int step = 0; step < 5; ++step) {
    for (auto& parameter : model->parameters()) parameter.mutable_grad().reset();
    ddp(fuse_batch(group->rank(), step, 640)).pow(2).mean().backward();
    optimizer.step();
  }
  double elements = 0;
  for (const auto& [name, state] : optimizer.named_state(ddp.named_parameters())) {
    for (const auto& [kind, tensor] : state.tensors) elements += static_cast<double>(tensor.numel());
  }
  return {model->weight.detach().clone(), elements / (640 * 40 + 40)};
}

TEST(FuseOnHosts, SharesOutTheStateAndTrainsAsWithout) {
  for (const int ranks : {3, 4}) {
    run_ranks_as_threads(ranks, [&](const Membership& membership) {
      const Group group = make_communicator("", on_two_hosts(membership));
      EXPECT_STREQ(group->engine(), "hierarchical");
      const auto [plain, all_of_the_state] = train_on_hosts(group, false);
      const auto [fused, share] = train_on_hosts(group, true);
      EXPECT_TRUE(torch::allclose(plain, fused, 1e-5, 1e-7)) << (plain - fused).abs().max().item<double>();
      at::Tensor of_rank_0 = fused.clone();
      group->broadcast(of_rank_0);
      EXPECT_TRUE(torch::equal(of_rank_0, fused));
      EXPECT_DOUBLE_EQ(all_of_the_state, 2);
      EXPECT_NEAR(share, 2.0 / group->world_size(), 0.02);
    });
  }
}

}  // namespace
}  // namespace lockstep

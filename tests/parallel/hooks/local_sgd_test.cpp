// Tests which ranks average what in post-local SGD, and what post-local SGD, DiLoCo and the model averager require of
// their ranks and their saved state.
#include <gtest/gtest.h>

#include <memory>

#include "lockstep/parallel/local_sgd.h"
#include "tests/parallel/fused/fuse_ranks.h"
#include "tests/support/pretended_hosts.h"

namespace lockstep {
namespace {

using torch::nn::Linear;

// PyTorch's default: after the first steps, gradients are averaged among the ranks of a host.
TEST(PostLocalSGD, AveragesWithinEachHostByDefault) {
  run_ranks_as_threads(4, [](const Membership& membership) {
    const Group group = make_communicator("gloo", on_two_hosts(membership));
    const Linear model(torch::nn::LinearOptions(1, 1).bias(false));
    DistributedDataParallel ddp(model, fuse_on(group));
    PostLocalSGDOptions options;
    options.start_localSGD_iter = 1;
    ddp.register_comm_hook(post_local_sgd_hook(options));
    for (int step = 0; step < 2; ++step) {
      model->weight.mutable_grad().reset();
      ddp(torch::full({1, 1}, static_cast<double>(group->rank()))).sum().backward();
      const double of_host = group->rank() % 2 == 0 ? (0 + 2) / 2.0 : (1 + 3) / 2.0;
      EXPECT_FLOAT_EQ(model->weight.grad().item<float>(), static_cast<float>(step == 0 ? 1.5 : of_host));
    }
  });
}

TEST(PostLocalSGD, RefusesTheStateOfAnotherHook) {
  const HookState strange{{"0.error", torch::zeros({3})}};
  EXPECT_NE(fuse_error([&] { post_local_sgd_hook({})->load_state(strange); }).find("post_local_sgd"),
            std::string::npos);
}

TEST(PostLocalSGD, AveragesNothingIfToldSo) {
  fuse_ranks("thread", 2, [](Group group) {
    const Linear model(torch::nn::LinearOptions(1, 1).bias(false));
    DistributedDataParallel ddp(model, fuse_on(group));
    PostLocalSGDOptions options;
    options.start_localSGD_iter = 0;
    options.post_local_gradient_allreduce = false;
    ddp.register_comm_hook(post_local_sgd_hook(options));
    ddp(torch::full({1, 1}, 1.0 + group->rank())).sum().backward();
    EXPECT_FLOAT_EQ(model->weight.grad().item<float>(), 1.0F + static_cast<float>(group->rank()));
  });
}

TEST(DiLoCo, RefusesWeightsThatDiffer) {
  fuse_ranks("thread", 3, [](Group group) {
    const Linear model = make_linear(4, 4);
    const torch::NoGradGuard no_grad;
    if (group->rank() == 2) model->bias.add_(1);
    const std::string text = fuse_error([&] { DiLoCo(model->parameters(), {}, group); });
    EXPECT_NE(text.find("parameter 1 of 2 differs between rank 0 and rank 2"), std::string::npos) << text;
  });
}

TEST(DiLoCo, ContinuesBitForBitFromItsState) {
  fuse_ranks("thread", 2, [](Group group) {
    const torch::NoGradGuard no_grad;
    DiLoCoOptions options;
    options.sync_every = 3;
    at::Tensor straight = torch::full({5}, 1.0), resumed = straight.clone();
    DiLoCo whole({straight}, options, group), first({resumed}, options, group);
    std::unique_ptr<DiLoCo> second;
    for (int step = 0; step < 13; ++step) {
      if (step == 7) {
        const std::string state = first.state_dict();
        const at::Tensor weights = resumed.clone();  // differ between ranks
        resumed = torch::full({5}, 1.0);
        second = std::make_unique<DiLoCo>(std::vector<at::Tensor>{resumed}, options, group);
        second->load_state_dict(state);
        resumed.copy_(weights);
      }
      for (at::Tensor* weights : {&straight, &resumed}) weights->sub_(0.1 * (step + group->rank()));
      whole.step();
      (second ? *second : first).step();
      EXPECT_TRUE(torch::equal(straight, resumed)) << step;
    }
    EXPECT_NE(fuse_error([&] {
                DiLoCo({torch::ones({4})}, {}, group).load_state_dict(whole.state_dict());
              }).find("not that of these parameters"),
              std::string::npos);
  });
}

TEST(PeriodicModelAverager, KeepsItsStep) {
  fuse_ranks("thread", 1, [](Group group) {
    PeriodicModelAverager averager(3, 0, group), other(3, 0, group);
    for (int step = 0; step < 4; ++step) averager.average_parameters({torch::ones({2})});
    other.load_state_dict(averager.state_dict());
    EXPECT_EQ(other.step(), 4);
    EXPECT_NE(fuse_error([&] { other.load_state_dict("four"); }).find("not a number of steps"), std::string::npos);
  });
}

}  // namespace
}  // namespace lockstep

// Tests gradient penalties with a backward of their own, as WGAN-GP, R1 and physics-informed networks have them: that
// backward reaches parameters, and no output of the wrapper. Every stage must make the steps of one process.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "lockstep/models/layers/dense_function.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/parallel/fully_sharded_data_parallel.h"
#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

constexpr int kCriticWidth = 4;

// Numbered layers, which are units of stage 3; the last has a bias of one element.
torch::nn::Sequential make_critic() {
  torch::nn::Sequential critic(make_linear(kCriticWidth, 8), torch::nn::Tanh(), make_linear(8, 8), torch::nn::Tanh(),
                               make_linear(8, 1));
  critic->to(torch::kDouble);
  return critic;
}

// The rows of rank `rank` of `world_size`; of one process: all.
at::Tensor critic_batch(int step, int rank, int world_size) {
  const at::Tensor all =
      torch::linspace(-1, 1 + 0.1 * step, 6 * kCriticWidth, torch::kDouble).sin().view({6, kCriticWidth});
  const std::int64_t rows = 6 / world_size;
  return all.narrow(0, rank * rows, rows).contiguous();
}

template <typename Net>
at::Tensor critic_loss(Net& net, const at::Tensor& x) {
  return net(x.cos()).mean() - net(x).mean();
}

// The deviation of the gradient's norm from 1, by the inputs.
template <typename Net>
at::Tensor gradient_penalty(Net& net, const at::Tensor& x) {
  const at::Tensor mixed = x.clone().requires_grad_(true), score = net(mixed);
  const at::Tensor slope = torch::autograd::grad({score}, {mixed}, {torch::ones_like(score)}, true, true)[0];
  return 10 * (slope.norm(2, 1) - 1).pow(2).mean();
}

enum class Backwards { One, PenaltyFirst, PenaltyLast, PenaltyAlone, Accumulated };

template <typename Net>
void backwards_of(Backwards order, Net& net, const at::Tensor& x) {
  if (order == Backwards::One) return (critic_loss(net, x) + gradient_penalty(net, x)).backward();
  if (order == Backwards::PenaltyLast) critic_loss(net, x).backward();
  gradient_penalty(net, x).backward();
  if (order == Backwards::PenaltyFirst) critic_loss(net, x).backward();
  if (order == Backwards::Accumulated) gradient_penalty(net, x.sin()).backward();
}

std::vector<at::Tensor> copies_of_weights(const torch::nn::Sequential& net) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& parameter : net->parameters()) result.push_back(parameter.detach().clone());
  return result;
}

std::vector<at::Tensor> critic_of_one_process(Backwards order, int steps) {
  torch::nn::Sequential critic = make_critic();
  torch::optim::Adam optimizer(critic->parameters(), torch::optim::AdamOptions(0.01));
  const auto net = [&](const at::Tensor& x) { return critic->forward(x); };
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    backwards_of(order, net, critic_batch(step, 0, 1));
    optimizer.step();
  }
  return copies_of_weights(critic);
}

void expect_close_critics(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].allclose(want[i], 1e-9, 1e-10)) << i;
}

struct SecondOrderCase {
  const char* name;
  const char* engine;
  int world_size;
  int stage;
  bool reshard_after_forward;
};

class SecondOrder : public ::testing::TestWithParam<SecondOrderCase> {};

INSTANTIATE_TEST_SUITE_P(Stages, SecondOrder,
                         ::testing::Values(SecondOrderCase{"unfused", "thread", 2, 0, true},
                                           SecondOrderCase{"stage1", "thread", 2, 1, true},
                                           SecondOrderCase{"stage2", "thread", 2, 2, true},
                                           SecondOrderCase{"stage3", "thread", 2, 3, true},
                                           SecondOrderCase{"stage3_kept", "thread", 3, 3, false},
                                           SecondOrderCase{"stage2_alone", "thread", 1, 2, true},
                                           SecondOrderCase{"stage3_alone", "thread", 1, 3, true}),
                         [](const auto& test) { return std::string(test.param.name); });
INSTANTIATE_TEST_SUITE_P(StagesLong, SecondOrder,
                         ::testing::Values(SecondOrderCase{"stage2_gloo", "gloo", 2, 2, true},
                                           SecondOrderCase{"stage3_gloo", "gloo", 2, 3, true},
                                           SecondOrderCase{"stage2_shm", "shm", 2, 2, true}),
                         [](const auto& test) { return std::string(test.param.name); });

// Seconds: five orders of backward passes, each by one process and by ranks.
TEST_P(SecondOrder, PenaltiesMakeTheStepsOfOneProcess) {
  const SecondOrderCase& param = GetParam();
  for (const Backwards order : {Backwards::One, Backwards::PenaltyFirst, Backwards::PenaltyLast,
                                Backwards::PenaltyAlone, Backwards::Accumulated}) {
    SCOPED_TRACE(static_cast<int>(order));
    const std::vector<at::Tensor> want = critic_of_one_process(order, 4);
    fuse_ranks(param.engine, param.world_size, [&](const Group& group) {
      torch::nn::Sequential critic = make_critic();
      DistributedDataParallelOptions options = fuse_on(group);
      options.bucket_cap_mb = 0.0001;
      DistributedDataParallel ddp(critic, options);
      Adam optimizer(critic->parameters(), torch::optim::AdamOptions(0.01));
      FuseOptions how;
      how.stage = param.stage;
      how.share_weights = param.stage < 3;
      how.reshard_after_forward = param.reshard_after_forward;
      how.slots = 2;
      if (param.stage > 0) {
        EXPECT_NE(ddp.fuse(optimizer, how).mode(), FuseMode::Off);
      }
      for (int step = 0; step < 4; ++step) {
        optimizer.zero_grad();
        backwards_of(order, ddp, critic_batch(step, group->rank(), param.world_size));
        optimizer.step();
      }
      ddp.fused_step().unfuse();
      expect_close_critics(copies_of_weights(critic), want);
    });
  }
}

// On one rank, too, which has stand-ins as the others have.
TEST(SecondOrderOnce, FullyShardedCriticsHavePenalties) {
  const std::vector<at::Tensor> want = critic_of_one_process(Backwards::PenaltyLast, 3);
  for (const int world_size : {1, 2}) {
    fuse_ranks("thread", world_size, [&](const Group& group) {
      torch::nn::Sequential critic = make_critic();
      Adam optimizer(critic->parameters(), torch::optim::AdamOptions(0.01));
      FullyShardOptions options;
      options.process_group = group;
      auto sharded = fully_shard(critic, optimizer, options);
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        backwards_of(Backwards::PenaltyLast, sharded, critic_batch(step, group->rank(), world_size));
        optimizer.step();
      }
      sharded.fused_step().unshard();
      expect_close_critics(copies_of_weights(critic), want);
    });
  }
}

// Layers that add to gradients in place pass by autograd's accumulators; one of them has a single element.
struct DenseCriticImpl : torch::nn::Module {
  DenseCriticImpl() : inner(make_linear(kCriticWidth, 6)), outer(make_linear(6, 1)) {
    register_module("inner", inner);
    register_module("outer", outer);
    to(torch::kDouble);
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor hidden = torch::tanh(dense(x, inner->weight, inner->bias, WeightLayout::OutIn));
    return dense(hidden, outer->weight, outer->bias, WeightLayout::OutIn);
  }
  torch::nn::Linear inner, outer;
};
TORCH_MODULE(DenseCritic);

TEST(SecondOrderOnce, LayersThatAddInPlaceHavePenalties) {
  const auto weights = [](const DenseCritic& net) {
    return torch::cat({net->inner->weight.detach().flatten(), net->inner->bias.detach(), net->outer->weight.detach()[0],
                       net->outer->bias.detach()});
  };
  at::Tensor want;
  {
    DenseCritic critic;
    torch::optim::SGD optimizer(critic->parameters(), torch::optim::SGDOptions(0.05));
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      backwards_of(Backwards::PenaltyLast, critic, critic_batch(step, 0, 1));
      optimizer.step();
    }
    want = weights(critic);
  }
  for (const int stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    fuse_ranks("thread", 2, [&](const Group& group) {
      DenseCritic critic;
      DistributedDataParallel ddp(critic, fuse_on(group));
      SGD optimizer(critic->parameters(), torch::optim::SGDOptions(0.05));
      FuseOptions how;
      how.stage = stage;
      how.share_weights = stage < 3;
      EXPECT_NE(ddp.fuse(optimizer, how).mode(), FuseMode::Off);
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        backwards_of(Backwards::PenaltyLast, ddp, critic_batch(step, group->rank(), 2));
        optimizer.step();
      }
      ddp.fused_step().unfuse();
      EXPECT_TRUE(weights(critic).allclose(want, 1e-9, 1e-10));
    });
  }
}

}  // namespace
}  // namespace lockstep

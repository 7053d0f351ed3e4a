// load_state into a model whose ranks share one copy of the weights: it is right, so nothing warns, and a training
// continues as without fuse.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "lockstep/optim/adam.h"
#include "lockstep/train/accelerator.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using torch::nn::Linear;

constexpr int kFusedLoadRanks = 3;

Linear fused_load_net() {
  Linear net(20, 30);
  const torch::NoGradGuard no_grad;
  for (at::Tensor& parameter : net->parameters()) {
    parameter.copy_(torch::linspace(-0.4, 0.5, parameter.numel()).view(parameter.sizes()));
  }
  return net;
}

struct FusedLoadRun {
  std::vector<at::Tensor> weights;  // of each rank
  std::string log;
};

// Steps 0 and 1, a checkpoint, steps 2 and 3, back to the checkpoint, steps 2 and 3 again.
// @param stage  of the fused update; 0: not fused
FusedLoadRun run_with_a_way_back(int stage, bool with_waiting_gradients) {
  const TemporaryFolder folder;
  FusedLoadRun run{std::vector<at::Tensor>(kFusedLoadRanks), ""};
  ::testing::internal::CaptureStderr();
  run_ranks_as_threads(kFusedLoadRanks, [&](const Membership& membership) {
    AcceleratorOptions options;
    options.ddp.process_group = make_communicator("thread", membership);
    Accelerator accelerator(options);
    Linear net = fused_load_net();
    Adam adam(net->parameters(), torch::optim::AdamOptions(0.05));
    auto [model, optimizer] = accelerator.prepare(net, adam);
    if (stage != 0) {
      FuseOptions how;
      how.stage = stage;
      ASSERT_EQ(model.ddp().fuse(adam, how).mode(), FuseMode::SharedWeights);
    }
    const auto backward = [&, &model = model](int step) {
      const at::Tensor rows = torch::arange(80, torch::kFloat) + 31 * membership.rank + 7 * step;
      accelerator.backward(model(rows.square().sin().view({4, 20})).square().mean());
    };
    const auto train = [&, &optimizer = optimizer](int step) {
      backward(step);
      optimizer.step();
      optimizer.zero_grad();
    };
    for (const int step : {0, 1}) train(step);
    accelerator.save_state(folder / "state");
    for (const int step : {2, 3}) train(step);
    if (with_waiting_gradients) backward(4);  // of a loss that has jumped
    accelerator.load_state(folder / "state");
    for (const int step : {2, 3}) train(step);
    if (stage != 0) model.ddp().fused_step().unfuse();
    run.weights[static_cast<std::size_t>(membership.rank)] =
        torch::cat({net->weight.detach().flatten(), net->bias.detach()}).clone();
  });
  run.log = ::testing::internal::GetCapturedStderr();
  return run;
}

class AcceleratorFusedLoad : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Stages, AcceleratorFusedLoad, ::testing::Values(1, 2),
                         [](const auto& test) { return std::to_string(test.param); });

TEST_P(AcceleratorFusedLoad, IsRightWithoutAWarning) {
  for (const bool with_waiting_gradients : {false, true}) {
    const FusedLoadRun plain = run_with_a_way_back(0, with_waiting_gradients);
    const FusedLoadRun fused = run_with_a_way_back(GetParam(), with_waiting_gradients);
    EXPECT_EQ(fused.log.find("was written between two steps"), std::string::npos) << fused.log;
    for (int rank = 0; rank < kFusedLoadRanks; ++rank) {
      const at::Tensor& weights = fused.weights[static_cast<std::size_t>(rank)];
      ASSERT_TRUE(weights.defined());
      EXPECT_TRUE(weights.equal(fused.weights[0])) << "rank " << rank;
      EXPECT_LE((weights - plain.weights[0]).abs().max().item<double>(), 1e-6) << "rank " << rank;
    }
  }
}

// A window whose gradients are with their owners cannot be saved: each rank's part of them is gone.
TEST(AcceleratorFusedSave, RefusesAnOpenWindowWhoseGradientsWereSent) {
  const TemporaryFolder folder;
  run_ranks_as_threads(2, [&](const Membership& membership) {
    AcceleratorOptions options;
    options.ddp.process_group = make_communicator("thread", membership);
    options.gradient_accumulation_steps = 4;
    Accelerator accelerator(options);
    Linear net = fused_load_net();
    Adam adam(net->parameters(), torch::optim::AdamOptions(0.05));
    auto [model, optimizer] = accelerator.prepare(net, adam);
    FuseOptions how;
    how.stage = 2;
    ASSERT_EQ(model.ddp().fuse(adam, how).mode(), FuseMode::SharedWeights);
    const auto micro_batch = [&, &model = model](bool synchronised) {
      const at::Tensor rows = torch::ones({4, 20});
      if (synchronised) {
        accelerator.backward(model(rows).square().mean());
      } else {
        const auto window = accelerator.accumulate(model);
        accelerator.backward(model(rows).square().mean());
      }
    };
    micro_batch(false);
    accelerator.save_state(folder / "kept");  // gradients of this rank, which are with autograd
    micro_batch(true);
    try {
      accelerator.save_state(folder / "sent");
      ADD_FAILURE() << "a window was saved without its gradients";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("were sent to the ranks that update them"), std::string::npos)
          << error.what();
    }
  });
}

}  // namespace
}  // namespace lockstep

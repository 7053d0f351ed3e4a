// Tests that join_uneven_inputs leaves replicas that stay equal in the following steps.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/comm/factory.h"
#include "lockstep/optim/adam.h"
#include "lockstep/train/accelerator.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

at::Tensor uneven_batch(int rank, int step) {
  return (torch::arange(80, torch::kFloat) + 31 * rank + 7 * step).square().sin().view({4, 20});
}

TEST(AcceleratorJoin, LeavesOptimizersAndSchedulersEqual) {
  for (const bool of_libtorch : {false, true}) {
    run_ranks_as_threads(3, [&](const Membership& membership) {
      AcceleratorOptions options;
      options.ddp.process_group = make_communicator("thread", membership);
      Accelerator accelerator(options);
      torch::nn::Linear net(20, 30);
      Adam flat(net->parameters(), torch::optim::AdamOptions(0.01));
      torch::optim::Adam of_torch(net->parameters(), torch::optim::AdamOptions(0.01));
      torch::optim::Optimizer& adam = of_libtorch ? static_cast<torch::optim::Optimizer&>(of_torch) : flat;
      torch::optim::StepLR rates(adam, 2, 0.5);
      auto [model, optimizer, scheduler] = accelerator.prepare(net, adam, rates);
      const auto train = [&, &m = model, &o = optimizer, &s = scheduler](int steps) {
        for (int step = 0; step < steps; ++step) {
          o.zero_grad();
          accelerator.backward(m(uneven_batch(accelerator.process_index(), step)).pow(2).mean());
          o.step();
          s.step();
        }
      };
      accelerator.join_uneven_inputs(model, [&] { train(1 + accelerator.process_index()); });
      train(5);
      const at::Tensor all =
          accelerator.gather(torch::cat({net->weight.detach().flatten(), net->bias.detach()})).view({3, -1});
      EXPECT_TRUE(torch::equal(all[0], all[1]) && torch::equal(all[0], all[2])) << of_libtorch;
    });
  }
}

}  // namespace
}  // namespace lockstep

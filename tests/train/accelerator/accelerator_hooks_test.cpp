// Tests Accelerator with communication hooks: a checkpoint contains each rank's own state.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>

#include "lockstep/comm/factory.h"
#include "lockstep/optim/adam.h"
#include "lockstep/parallel/local_sgd.h"
#include "lockstep/parallel/power_sgd_hook.h"
#include "lockstep/train/accelerator.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using torch::nn::Linear;

void on_hook_ranks(int world_size, const std::function<void(Accelerator&)>& body) {
  run_ranks_as_threads(world_size, [&](const Membership& membership) {
    AcceleratorOptions options;
    options.ddp.process_group = make_communicator("thread", membership);
    Accelerator accelerator(options);
    body(accelerator);
  });
}

Linear hook_net() {
  Linear net(20, 30);
  const torch::NoGradGuard no_grad;
  for (at::Tensor& parameter : net->parameters()) {
    parameter.copy_(torch::linspace(-0.4, 0.5, parameter.numel()).view(parameter.sizes()));
  }
  return net;
}

at::Tensor hook_batch(int rank, int step) {
  return (torch::arange(80, torch::kFloat) + 31 * rank + 7 * step).square().sin().view({4, 20});
}

at::Tensor weights_of(const Linear& net) {
  return torch::cat({net->weight.detach().flatten(), net->bias.detach()}).clone();
}

struct HookedCase {
  const char* name;
  bool of_libtorch;
  std::unique_ptr<CommunicationHook> (*hook)();
  bool averages;  // PeriodicModelAverager after each step
  bool diloco;
};

const HookedCase kHookedCases[] = {
    {"Int8", false, [] { return int8_compress_hook(); }, false, false},
    {"PowerSgd", true,
     [] {
       PowerSGDOptions options;
       options.start_powerSGD_iter = 2;
       return power_sgd_hook(options);
     },
     false, false},
    {"PostLocalSgd", false,
     [] {
       PostLocalSGDOptions options;
       options.start_localSGD_iter = 6;
       options.post_local_gradient_allreduce = false;
       return post_local_sgd_hook(options);
     },
     true, false},
    {"DiLoCo", true, [] { return noop_hook(); }, false, true},
};

// Trains steps [begin, 10). If it begins at the first step, saves after the eighth. @return  this rank's weights
at::Tensor train_hooked(Accelerator& accelerator, const HookedCase& c, int begin, const std::string& folder) {
  Linear net = hook_net();
  Adam flat(net->parameters(), torch::optim::AdamOptions(0.01));
  torch::optim::Adam of_torch(net->parameters(), torch::optim::AdamOptions(0.01));
  torch::optim::Optimizer& adam = c.of_libtorch ? static_cast<torch::optim::Optimizer&>(of_torch) : flat;
  auto [model, optimizer] = accelerator.prepare(net, adam);
  model.ddp().register_comm_hook(c.hook());
  const std::shared_ptr<Communicator> group(std::shared_ptr<void>(), &accelerator.process_group());
  PeriodicModelAverager averager(4, 6, group);
  DiLoCoOptions outer_options;
  outer_options.sync_every = 3;
  DiLoCo outer(net->parameters(), outer_options, group);
  accelerator.register_for_checkpointing(averager);
  accelerator.register_for_checkpointing(outer);
  if (begin > 0) accelerator.load_state(folder);
  for (int step = begin; step < 10; ++step) {
    optimizer.zero_grad();
    accelerator.backward(model(hook_batch(accelerator.process_index(), step)).pow(2).mean());
    optimizer.step();
    if (c.averages) averager.average_parameters(net->parameters());
    if (c.diloco) outer.step();
    if (begin == 0 && step == 7) accelerator.save_state(folder);
  }
  return weights_of(net);
}

class HookedState : public ::testing::TestWithParam<HookedCase> {};

INSTANTIATE_TEST_SUITE_P(Table, HookedState, ::testing::ValuesIn(kHookedCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(HookedState, SavedAndResumedEndsWithTheSameBitsOnEachRank) {
  for (const int world_size : {2, 3}) {
    const TemporaryFolder folder;
    std::vector<at::Tensor> straight(static_cast<std::size_t>(world_size)), resumed = straight;
    on_hook_ranks(world_size, [&](Accelerator& accelerator) {
      straight[static_cast<std::size_t>(accelerator.process_index())] =
          train_hooked(accelerator, GetParam(), 0, folder / "state");
    });
    on_hook_ranks(world_size, [&](Accelerator& accelerator) {
      resumed[static_cast<std::size_t>(accelerator.process_index())] =
          train_hooked(accelerator, GetParam(), 8, folder / "state");
    });
    for (std::size_t rank = 0; rank < straight.size(); ++rank) {
      EXPECT_TRUE(torch::equal(straight[rank], resumed[rank])) << "rank " << rank << " of " << world_size;
    }
  }
}

}  // namespace
}  // namespace lockstep

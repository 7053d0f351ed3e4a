// Tests by what the kernel counts that a rank holds its share of the weights and two layers (stage 3).
#include <gtest/gtest.h>
#include <malloc.h>
#include <torch/torch.h>

#include <algorithm>

#include "lockstep/optim/sgd.h"
#include "tests/parallel/fused/fuse_ranks.h"
#include "tests/support/kernel_memory.h"

namespace lockstep {
namespace {

constexpr int kDepth = 16;
constexpr int kSide = 512;  // a layer's weights are 1 MiB, and a bucket
constexpr double kSideMib = 4.0 * kSide * kSide / (1 << 20);

// Memory of this process alone, in MiB; negative if the kernel does not say.
double private_mib() { return mib_by_kernel("status", "RssAnon"); }

struct DeepNetImpl : torch::nn::Module {
  DeepNetImpl() {
    layers = register_module("layers", torch::nn::ModuleList());
    for (int i = 0; i < kDepth; ++i) {
      layers->push_back(torch::nn::Linear(torch::nn::LinearOptions(kSide, kSide).bias(false)));
    }
  }
  torch::Tensor forward(torch::Tensor x) {
    most_mib = 0;
    for (const auto& layer : *layers) {
      x = layer->as<torch::nn::Linear>()->forward(x);
      most_mib = std::max(most_mib, private_mib());
    }
    return x;
  }
  torch::nn::ModuleList layers{nullptr};
  double most_mib = 0;
};
TORCH_MODULE(DeepNet);

struct MeasuredMib {
  double between_steps = 0;
  double in_forward = 0;
};

// Beyond what was there before.
MeasuredMib mib_of_stage(const Group& group, int stage) {
  const double before = private_mib();
  DeepNet model;
  DistributedDataParallelOptions options = fuse_on(group);
  options.bucket_cap_mb = kSideMib;
  DistributedDataParallel ddp(model, options);
  SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01));
  FuseOptions how;
  how.stage = stage;
  how.slots = 2;
  EXPECT_EQ(ddp.fuse(optimizer, how), FuseMode::ShardedState);
  MeasuredMib result;
  for (int step = 0; step < 3; ++step) {
    ddp(fuse_batch(group->rank(), step, kSide)).pow(2).mean().backward();
    optimizer.step();
    optimizer.zero_grad();
    result = {private_mib() - before, model->most_mib - before};
  }
  return result;
}

TEST(Stage3Memory, IsAShareOfTheWeightsAndTwoLayers) {
  if (private_mib() < 0) GTEST_SKIP() << "the kernel has no RssAnon in /proc/self/status";
  run_ranks_as_processes(2, [](const Membership& membership) {
    ::mallopt(M_MMAP_THRESHOLD, 64 << 10);  // freed tensors go back to the kernel
    const Group group = make_communicator("gloo", membership);
    mib_of_stage(group, 3);  // what libraries take once
    const MeasuredMib two = mib_of_stage(group, 2), three = mib_of_stage(group, 3);
    const double weights = kDepth * kSideMib;
    // The group that gathers takes about 1 MiB itself.
    EXPECT_NEAR(two.between_steps - three.between_steps, weights / 2, 2);
    EXPECT_NEAR(three.in_forward - three.between_steps, 2 * kSideMib, 1);
  });
}

}  // namespace
}  // namespace lockstep

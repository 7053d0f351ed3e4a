// Tests that gradients of virtual shards are clipped once, by each norm that a fused optimizer takes.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <string>
#include <vector>

#include "lockstep/comm/factory.h"
#include "lockstep/optim/clip_grad_norm.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

// Terms of shards are read where they lie between threads and over shm, and sent over tcp.
class ShardClipping : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Engines, ShardClipping, ::testing::Values("thread", "shm", "tcp"),
                         [](const auto& test) { return std::string(test.param); });

// Weights after two steps, whose gradients are clipped to 0.3.
at::Tensor weights_after_clipping(const Group& group, bool fused, double norm_type) {
  const torch::nn::Linear model = make_linear(20, 4);
  DistributedDataParallelOptions options;
  options.process_group = group;
  options.virtual_shards = 4;
  DistributedDataParallel ddp(model, options);
  SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
  if (fused) {
    EXPECT_NE(ddp.fuse(optimizer).mode(), FuseMode::Off) << ddp.fused_step().reason();
  }
  for (int step = 0; step < 2; ++step) {
    ddp.run_shards(static_cast<std::uint64_t>(step), [&](std::int64_t shard) {
      ddp(fuse_batch(static_cast<int>(shard), step, 20)).pow(2).mean().backward();
    });
    clip_grad_norm_(optimizer, 0.3, norm_type);
    optimizer.step();
    optimizer.zero_grad();
  }
  return model->weight.detach().clone();
}

TEST_P(ShardClipping, ScalesTheAverageOnce) {
  fuse_ranks(GetParam(), 2, [](const Group& group) {
    for (const double norm_type : {2.0, std::numeric_limits<double>::infinity(), 0.0}) {
      const at::Tensor want = weights_after_clipping(group, false, norm_type);
      const at::Tensor got = weights_after_clipping(group, true, norm_type);
      EXPECT_LE((want - got).abs().max().item<double>(), 1e-6) << norm_type;
    }
  });
}

}  // namespace
}  // namespace lockstep

// Counts what crosses the link between two hosts if weights are gathered (stage 3), in fp32 and in bf16.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <cstdlib>
#include <optional>

#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/bf16_forward.h"
#include "tests/parallel/fused/fuse_ranks.h"
#include "tests/support/sent_bytes.h"
#include "tools/hosts/network_hosts.h"

namespace lockstep {
namespace {

constexpr int kGatheredDepth = 6;
constexpr int kGatheredSide = 512;
constexpr int kGatheredSteps = 3;

// Matrices, which bf16 halves, each a unit of its own.
struct GatheredNetImpl : torch::nn::Module {
  GatheredNetImpl() : layers(register_module("layers", torch::nn::ModuleList())) {
    for (int i = 0; i < kGatheredDepth; ++i) {
      layers->push_back(torch::nn::Linear(torch::nn::LinearOptions(kGatheredSide, kGatheredSide).bias(false)));
    }
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& layer : *layers) x = torch::tanh(layer->as<torch::nn::Linear>()->forward(x));
    return x;
  }
  torch::nn::ModuleList layers;
};
TORCH_MODULE(GatheredNet);

struct SentBytes {
  double step = 0;
  double evaluation = 0;
};

// What this host sends in a step and in a forward without a graph.
SentBytes bytes_sent(const Group& group, const FuseOptions& how) {
  GatheredNet model;
  DistributedDataParallelOptions options = fuse_on(group);
  options.bucket_cap_mb = 1;  // a bucket for each matrix
  DistributedDataParallel ddp(model, options);
  SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01));
  EXPECT_EQ(ddp.fuse(optimizer, how).mode(), FuseMode::ShardedState);
  const auto forward = [&](int number) {
    std::optional<Bf16Forward> bf16;
    if (how.compute_dtype) bf16.emplace(*model);
    return ddp(fuse_batch(group->rank(), number, kGatheredSide)).to(at::kFloat);
  };
  const auto step = [&](int number) {
    forward(number).pow(2).mean().backward();
    optimizer.step();
    optimizer.zero_grad();
  };
  const auto evaluate = [&](int number) {
    const torch::NoGradGuard no_grad;
    forward(number);
  };
  const auto sent_by = [&](const auto& body) {
    body(0);
    body(1);  // what is read is agreed, and so is the order
    group->barrier();
    const std::int64_t before = bytes_sent_by_this_host();
    group->barrier();
    for (int number = 0; number < kGatheredSteps; ++number) body(number);
    group->barrier();
    const std::int64_t after = bytes_sent_by_this_host();
    group->barrier();
    return static_cast<double>(after - before) / kGatheredSteps;
  };
  SentBytes result;
  result.step = sent_by(step);
  if (how.stage == 3) result.evaluation = sent_by(evaluate);
  return result;
}

FuseOptions gathered(bool in_bf16, bool reshards) {
  FuseOptions how;
  how.stage = 3;
  how.share_weights = false;
  how.reshard_after_forward = reshards;
  if (in_bf16) how.compute_dtype = at::kBFloat16;
  return how;
}

// With two hosts, a gradient or a weight that is shared out crosses the link once, half of the elements each way.
TEST(Stage3OnHosts, SendsTwoBytesOfAWeightInBf16) {
  if (const auto reason = NetworkHosts::why_not()) GTEST_SKIP() << *reason;
  const NetworkHosts hosts(2, "1gbit");
  RanksOptions options;
  options.prepare = [&hosts](int rank) {
    hosts.enter(rank);
    ::setenv("MASTER_ADDR", hosts.address(0).c_str(), 1);
  };
  run_ranks_as_processes(
      2,
      [](const Membership& membership) {
        const Group group = make_communicator("gloo", membership);
        FuseOptions stage_2;
        stage_2.stage = 2;
        stage_2.share_weights = false;
        const double known = bytes_sent(group, stage_2).step;  // 4 bytes of a gradient and 4 of a weight
        EXPECT_GT(known, 4.0 * kGatheredDepth * kGatheredSide * kGatheredSide) << "the counter counts something else";
        // Backward finds the last two layers in memory, and needs no gradient of the first one's input.
        const double again = 1 - 3.0 / kGatheredDepth;
        const SentBytes fp32 = bytes_sent(group, gathered(false, true)), bf16 = bytes_sent(group, gathered(true, true));
        EXPECT_NEAR(fp32.step / known, (4 + 4 + 4 * again) / 8, 0.04);
        EXPECT_NEAR(bf16.step / known, (4 + 2 + 2 * again) / 8, 0.04);
        EXPECT_NEAR(bf16.evaluation / fp32.evaluation, 0.5, 0.03);
        const SentBytes kept = bytes_sent(group, gathered(true, false));
        EXPECT_NEAR(kept.step / known, (4 + 2) / 8.0, 0.04);
        FuseOptions all_in_bf16 = gathered(true, false);
        all_in_bf16.gradient_dtype = at::kBFloat16;
        EXPECT_NEAR(bytes_sent(group, all_in_bf16).step / known, (2 + 2) / 8.0, 0.04);
      },
      options);
}

}  // namespace
}  // namespace lockstep

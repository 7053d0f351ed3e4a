// Tests that layers of LibTorch read gathered bf16 copies, and what a rank holds then.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <vector>

#include "lockstep/optim/adam.h"
#include "lockstep/tensor/bf16_forward.h"
#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

// Layers of LibTorch get all their copies before the forward, from the first one on.
struct PlainUnitsImpl : torch::nn::Module {
  PlainUnitsImpl() : layers(register_module("layers", torch::nn::ModuleList())) {
    for (int i = 0; i < 3; ++i) layers->push_back(make_linear(16, 16));
    attention = register_module("attention", torch::nn::MultiheadAttention(16, 2));
    std::uint64_t seed = 1;
    const torch::NoGradGuard no_grad;
    for (at::Tensor& parameter : parameters()) {
      auto generator = at::detail::createCPUGenerator(seed++);
      parameter.copy_(torch::randn(parameter.sizes(), generator) * 0.2);
    }
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& layer : *layers) x = torch::tanh(layer->as<torch::nn::Linear>()->forward(x));
    x = x.view({-1, 1, 16});
    return std::get<0>(attention->forward(x, x, x));
  }
  torch::nn::ModuleList layers;
  torch::nn::MultiheadAttention attention{nullptr};
};
TORCH_MODULE(PlainUnits);

std::vector<at::Tensor> train_plain_units(const Group& group, int stage) {
  PlainUnits model;
  DistributedDataParallelOptions options = fuse_on(group);
  options.bucket_cap_mb = 0.001;
  DistributedDataParallel ddp(model, options);
  AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(0.01));
  FuseOptions how;
  how.stage = stage;
  how.share_weights = false;
  how.compute_dtype = at::kBFloat16;
  EXPECT_EQ(ddp.fuse(optimizer, how).mode(), FuseMode::ShardedState);
  std::vector<at::Tensor> result;
  const auto forward = [&](int step) {
    const Bf16Forward bf16(*model);
    return ddp(fuse_batch(group->rank(), step, 16)).to(torch::kFloat);
  };
  for (int step = 0; step < 4; ++step) {
    optimizer.zero_grad();
    {
      const torch::NoGradGuard no_grad;
      result.push_back(forward(step));
    }
    const at::Tensor loss = forward(step).pow(2).mean();
    result.push_back(loss.detach());
    loss.backward();
    optimizer.step();
  }
  ddp.fused_step().unshard();
  for (const at::Tensor& parameter : model->parameters()) result.push_back(parameter.detach().clone());
  return result;
}

TEST(Stage3Bf16Layers, OfLibTorchReadCopies) {
  for (const char* engine : {"thread", "gloo"}) {
    fuse_ranks(engine, 2, [](const Group& group) {
      const auto got = train_plain_units(group, 3), want = train_plain_units(group, 2);
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(torch::equal(got[i], want[i])) << i;
    });
  }
}

constexpr int kMatrices = 10;
constexpr std::int64_t kMatrixSide = 32;

struct MatricesImpl : torch::nn::Module {
  MatricesImpl() : layers(register_module("layers", torch::nn::ModuleList())) {
    for (int i = 0; i < kMatrices; ++i) {
      layers->push_back(torch::nn::Linear(torch::nn::LinearOptions(kMatrixSide, kMatrixSide).bias(false)));
    }
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& layer : *layers) x = layer->as<torch::nn::Linear>()->forward(x);
    return x;
  }
  torch::nn::ModuleList layers;
};
TORCH_MODULE(Matrices);

// Matrices alone, one in each unit: bytes by hand.
TEST(Stage3Bf16Layers, HoldAShareItsCopyAndTwoUnitsInBf16) {
  fuse_ranks("thread", 2, [](const Group& group) {
    Matrices model;
    DistributedDataParallelOptions options = fuse_on(group);
    options.bucket_cap_mb = 0.0001;
    DistributedDataParallel ddp(model, options);
    AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(0.01));
    FuseOptions how;
    how.stage = 3;
    how.share_weights = false;
    how.compute_dtype = at::kBFloat16;
    ddp.fuse(optimizer, how);
    for (int step = 0; step < 4; ++step) {
      const Bf16Forward bf16(*model);
      ddp(fuse_batch(group->rank(), step, kMatrixSide)).pow(2).sum().backward();
      optimizer.step();
      optimizer.zero_grad();
    }
    const std::int64_t matrix = kMatrixSide * kMatrixSide;
    const std::int64_t shard = 4 * kMatrices * matrix / 2, copies = 2 * kMatrices * matrix / 2;
    // The unit that is used and what has arrived of it, and what arrives of the next one.
    const std::int64_t units = 3 * 2 * matrix;
    EXPECT_EQ(ddp.fused_step().peak_weight_bytes(), shard + copies + units);
  });
}

}  // namespace
}  // namespace lockstep

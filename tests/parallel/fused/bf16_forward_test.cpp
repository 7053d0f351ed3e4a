// Trains a module of LibTorch's own layers in bf16, by published copies and without.
#include "lockstep/tensor/bf16_forward.h"

#include <gtest/gtest.h>

#include <optional>

#include "lockstep/optim/adam.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/compute_copy.h"
#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

using torch::nn::Conv2d;
using torch::nn::Linear;

/// Layers that read weights in each of LibTorch's ways; two of them share a weight, and one is used twice.
struct PlainLayersImpl : torch::nn::Module {
  PlainLayersImpl()
      : convolution(register_module("convolution", Conv2d(torch::nn::Conv2dOptions(3, 16, 3).padding(1)))),
        attention(register_module("attention", torch::nn::MultiheadAttention(16, 2))),
        norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})))),
        up(register_module("up", Linear(16, 16))),
        tied(register_module("tied", Linear(torch::nn::LinearOptions(16, 16).bias(false)))),
        last(register_module("last", Linear(16, 5))) {
    tied->weight = up->weight;  // its own is never used
    auto generator = at::detail::createCPUGenerator(3);
    const torch::NoGradGuard no_grad;
    for (at::Tensor& parameter : parameters()) parameter.copy_(torch::randn(parameter.sizes(), generator) * 0.3);
  }
  at::Tensor forward(const at::Tensor& images) {
    at::Tensor h = convolution->forward(images).flatten(2).permute({2, 0, 1});  // [positions, size, channels]
    h = std::get<0>(attention->forward(h, h, h));
    h = norm->forward(h.to(torch::kFloat));
    h = tied->forward(torch::relu(up->forward(torch::tanh(up->forward(h)))));
    return last->forward(h.mean(0));
  }
  Conv2d convolution;
  torch::nn::MultiheadAttention attention;
  torch::nn::LayerNorm norm;
  Linear up, tied, last;
};
TORCH_MODULE(PlainLayers);

at::Tensor plain_images(int rank, int step) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(100 * rank + step));
  return torch::randn({4, 3, 6, 6}, generator);
}

// The weights after four steps, and what the steps' losses were.
std::vector<at::Tensor> train_plain_layers(const Group& group, bool publishes) {
  PlainLayers model;
  DistributedDataParallel ddp(model, fuse_on(group));
  AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(0.01));
  FuseOptions options;
  if (publishes) options.compute_dtype = at::kBFloat16;
  EXPECT_EQ(ddp.fuse(optimizer, options).mode(), FuseMode::SharedWeights);
  std::vector<at::Tensor> result;
  for (int step = 0; step < 4; ++step) {
    optimizer.zero_grad();
    at::Tensor scores;
    {
      const Bf16Forward bf16(*model);
      scores = ddp(plain_images(group->rank(), step)).to(torch::kFloat);
    }
    const at::Tensor loss = scores.pow(2).mean();
    result.push_back(loss.detach());
    loss.backward();
    optimizer.step();
  }
  for (const at::Tensor& parameter : model->parameters()) result.push_back(parameter.detach().clone());
  return result;
}

TEST(Bf16Forward, CopiesChangeNoBit) {
  for (const int world_size : {1, 2}) {
    fuse_ranks("thread", world_size, [](const Group& group) {
      const std::vector<at::Tensor> want = train_plain_layers(group, false), got = train_plain_layers(group, true);
      for (std::size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(torch::equal(got[i], want[i])) << "tensor " << i;
    });
  }
}

enum class PlainPrecision { Fp32, Autocast, Scope };

at::Tensor plain_gradients(PlainPrecision precision) {
  PlainLayers model;
  at::Tensor scores;
  {
    const Autocast autocast(c10::DeviceType::CPU, at::kBFloat16, precision == PlainPrecision::Autocast);
    std::optional<Bf16Forward> scope;
    if (precision == PlainPrecision::Scope) scope.emplace(*model);
    scores = model->forward(plain_images(0, 0)).to(torch::kFloat);
  }
  scores.pow(2).mean().backward();
  std::vector<at::Tensor> all;
  for (const at::Tensor& parameter : model->parameters()) {
    if (parameter.grad().defined()) all.push_back(parameter.grad().flatten());
  }
  return torch::cat(all);
}

// LibTorch's releases differ in what autocast rounds: 1.13 leaves the bias of a product of three dimensions in fp32.
TEST(Bf16Forward, HasTheGradientsOfFp32AsNearlyAsAutocast) {
  const at::Tensor want = plain_gradients(PlainPrecision::Fp32), scope = plain_gradients(PlainPrecision::Scope);
  const double error = (scope - want).norm().item<double>() / want.norm().item<double>();
  const at::Tensor autocast = plain_gradients(PlainPrecision::Autocast);
  EXPECT_GT(error, 0) << "nothing was computed in bf16";
  EXPECT_LT(error, 0.05);
  EXPECT_LT(error, 2 * (autocast - want).norm().item<double>() / want.norm().item<double>());
}

TEST(Bf16Forward, OneLayerHasTheBitsOfAutocast) {
  Linear layer(24, 8);
  const at::Tensor x = torch::linspace(-1, 1, 6 * 24).view({6, 24});
  std::vector<at::Tensor> results;
  for (const bool is_scope : {false, true}) {
    layer->zero_grad();
    at::Tensor out;
    {
      const Autocast autocast(c10::DeviceType::CPU, at::kBFloat16, true);
      std::optional<Bf16Forward> scope;
      if (is_scope) scope.emplace(*layer);
      out = layer->forward(x);
    }
    out.to(torch::kFloat).pow(2).sum().backward();
    results.insert(results.end(), {out, layer->weight.grad().clone(), layer->bias.grad().clone()});
  }
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(torch::equal(results[i], results[i + 3])) << i;
}

TEST(Bf16Forward, LayersReadTheCopyAndGetTheirParametersBack) {
  fuse_ranks("thread", 1, [](const Group& group) {
    PlainLayers model;
    DistributedDataParallel ddp(model, fuse_on(group));
    SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
    FuseOptions options;
    options.compute_dtype = at::kBFloat16;
    ddp.fuse(optimizer, options);
    {
      const Bf16Forward bf16(*model);
      ddp(plain_images(0, 0)).sum().backward();
    }
    optimizer.step();  // what has been read gets a copy
    const at::Tensor weight = model->last->weight;
    try {
      const Bf16Forward bf16(*model);
      const torch::NoGradGuard no_grad;
      EXPECT_EQ(model->last->weight.data_ptr(), compute_copy(weight, at::kBFloat16).data_ptr());
      EXPECT_TRUE(model->last->weight.requires_grad());
      EXPECT_TRUE(model->parameters().back().is_leaf());
      const Bf16Forward inner(*model);  // changes nothing
      EXPECT_FALSE(model->tied->bias.defined());
      throw std::runtime_error("from forward");
    } catch (const std::runtime_error&) {
    }
    EXPECT_TRUE(model->last->weight.is_same(weight));
    EXPECT_TRUE(model->up->weight.is_same(model->tied->weight));
  });
}

TEST(Bf16Forward, AddsGradientsInPlaceInFp32) {
  Linear layer(8, 8);
  layer->weight.mutable_grad() = torch::full({8, 8}, 0.125);
  const void* const memory = layer->weight.grad().data_ptr();
  {
    const Bf16Forward bf16(*layer);
    layer->forward(torch::ones({256, 8})).sum().backward();
  }
  EXPECT_EQ(layer->weight.grad().data_ptr(), memory);
  EXPECT_TRUE(torch::equal(layer->weight.grad(), torch::full({8, 8}, 256.125F)));  // bf16 would lose the 0.125
  EXPECT_TRUE(torch::equal(layer->bias.grad(), torch::full({8}, 256.F)));
}

// As an accumulation of gradients within one scope.
TEST(Bf16Forward, LivesForSeveralBackwards) {
  std::vector<at::Tensor> results;
  for (const bool is_one_scope : {true, false}) {
    Linear layer = make_linear(8, 8);
    std::optional<Bf16Forward> scope(*layer);
    for (int micro = 0; micro < 3; ++micro) {
      if (!is_one_scope) scope.emplace(*layer);
      layer->forward(fuse_batch(0, micro, 8)).to(torch::kFloat).pow(2).sum().backward();
    }
    scope.reset();
    results.push_back(layer->weight.grad().clone());
  }
  EXPECT_GT(results[0].abs().max().item<float>(), 0);
  EXPECT_TRUE(torch::equal(results[0], results[1]));
}

// Such as a loop around which the scope was made, in which the second step would follow gradients of the first weights.
TEST(Bf16Forward, RefusesBackwardsAfterAStep) {
  Linear layer = make_linear(8, 8);
  SGD optimizer(layer->parameters(), torch::optim::SGDOptions(0.1));
  const Bf16Forward bf16(*layer);
  layer->forward(fuse_batch(0, 0, 8)).sum().backward();
  optimizer.step();
  const at::Tensor loss = layer->forward(fuse_batch(0, 1, 8)).sum();
  const std::string error = fuse_error([&] { loss.backward(); });
  EXPECT_NE(error.find("was changed between forward and backward within a Bf16Forward"), std::string::npos) << error;
}

TEST(Bf16Forward, LeavesFrozenAndFp64LayersAlone) {
  Linear layer(8, 8);
  layer->weight.requires_grad_(false);
  Linear exact(8, 8);
  exact->to(torch::kDouble);
  torch::nn::Sequential both(layer, exact);
  const Bf16Forward bf16(*both);
  EXPECT_EQ(layer->weight.scalar_type(), torch::kBFloat16);
  EXPECT_FALSE(layer->weight.requires_grad());
  EXPECT_EQ(exact->weight.scalar_type(), torch::kDouble);
}

}  // namespace
}  // namespace lockstep

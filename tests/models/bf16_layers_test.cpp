// Tests the layers under autocast in bf16 against fp64: values, gradients, and what stays fp32.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <limits>
#include <tuple>
#include <vector>

#include "lockstep/detail/models/activation.h"
#include "lockstep/detail/tensor/autocast.h"
#include "lockstep/models/bert_heads.h"
#include "lockstep/models/gpt2.h"
#include "lockstep/models/layers/attention.h"
#include "lockstep/models/layers/attention_composed.h"
#include "lockstep/models/layers/attention_function.h"
#include "lockstep/models/layers/dense_function.h"
#include "lockstep/models/layers/dropout.h"
#include "lockstep/models/rotary_models.h"

namespace lockstep {
namespace {

using torch::Tensor;
using Tensors = std::vector<Tensor>;
using Layer = std::function<Tensor(const Tensors&)>;

constexpr double kUnit = 1.0 / 256;  // bf16 rounds to 8 bits, so by half of this share at most

// Values that bf16 has, so that the difference to fp64 is the layer's alone.
Tensor bf16_values(torch::IntArrayRef sizes) { return torch::randn(sizes).to(torch::kBFloat16).to(torch::kFloat); }

Tensors as_leaves(const Tensors& values, at::ScalarType type) {
  Tensors leaves;
  for (const Tensor& value : values) leaves.push_back(value.detach().to(type).clone().requires_grad_());
  return leaves;
}

// The layer's output, and the gradients of its inputs for random gradients of the output.
Tensors run(const Layer& layer, const Tensors& values, at::ScalarType type, bool autocasts) {
  const Tensors leaves = as_leaves(values, type);
  torch::manual_seed(4);
  Tensor out;
  {
    const Autocast autocast(c10::DeviceType::CPU, at::kBFloat16, autocasts);
    out = layer(leaves);
  }
  torch::manual_seed(5);
  const Tensor weights = torch::randn(out.sizes()).to(torch::kBFloat16);
  Tensors results{out};
  for (const Tensor& g : torch::autograd::grad({(out * weights.to(out.scalar_type())).sum()}, leaves)) {
    results.push_back(g);
  }
  return results;
}

// Errors are shares of a tensor's largest element: small elements are sums of large ones.
void expect_near_fp64(const Layer& layer, const Tensors& values, double units) {
  const Tensors got = run(layer, values, torch::kFloat, true);
  const Tensors want = run(layer, values, torch::kDouble, false);
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double error = (got[i].to(torch::kDouble) - want[i]).abs().max().item<double>();
    EXPECT_LE(error, units * kUnit * want[i].abs().max().item<double>()) << "tensor " << i;
    if (i > 0) {
      EXPECT_EQ(got[i].scalar_type(), torch::kFloat) << "gradient " << i - 1;
    }
  }
}

TEST(Bf16Layers, DenseFollowsFp64) {
  torch::manual_seed(1);
  for (const WeightLayout layout : {WeightLayout::OutIn, WeightLayout::InOut}) {
    const bool is_out_in = layout == WeightLayout::OutIn;
    const Tensor x = bf16_values({37, 48}),
                 weight = bf16_values(is_out_in ? torch::IntArrayRef{56, 48} : torch::IntArrayRef{48, 56});
    expect_near_fp64([&](const Tensors& t) { return dense(t[0], t[1], t[2], layout); }, {x, weight, bf16_values({56})},
                     1);
    expect_near_fp64([&](const Tensors& t) { return dense(t[0], t[1], {}, layout); }, {x, weight}, 1);
  }
}

TEST(Bf16Layers, DenseBesideFollowsFp64) {
  torch::manual_seed(2);
  const Tensors values{bf16_values({37, 48}), bf16_values({24, 48}), bf16_values({24}), bf16_values({24, 48}),
                       bf16_values({24}),     bf16_values({24, 48}), bf16_values({24})};
  expect_near_fp64(
      [](const Tensors& t) {
        return dense_beside(t[0], {t[1], t[3], t[5]}, {t[2], t[4], t[6]});
      },
      values, 1);
}

TEST(Bf16Layers, ActivationsFollowFp64) {
  torch::manual_seed(3);
  for (const Activation activation : {Activation::Gelu, Activation::GeluNew}) {
    const auto layer = [&](const Tensors& t) {
      return activate(activation, t[0].scalar_type() == torch::kDouble ? t[0] : t[0].to(torch::kBFloat16));
    };
    expect_near_fp64(layer, {bf16_values({33, 65})}, 1);
  }
}

TEST(Bf16Layers, DroppedSumsFollowFp64) {
  torch::manual_seed(3);
  const auto layer = [](const Tensors& t) {
    return add_dropout(t[0].scalar_type() == torch::kDouble ? t[0] : t[0].to(torch::kBFloat16), t[1], 0.3, true);
  };
  const Tensors values{bf16_values({33, 65}), torch::randn({33, 65})};
  expect_near_fp64(layer, values, 1);
  EXPECT_EQ(run(layer, values, torch::kFloat, true)[0].scalar_type(), torch::kFloat);
}

// Parameters: causal, padded, dropout.
class Bf16Attention : public ::testing::TestWithParam<std::tuple<bool, bool, bool>> {};

TEST_P(Bf16Attention, FollowsFp64) {
  const auto [is_causal, is_padded, has_dropout] = GetParam();
  torch::manual_seed(1);
  AttentionOptions options;
  options.size = 2;
  options.length = 24;
  options.heads = 3;
  options.scale = 0.25;
  options.dropout_p = has_dropout ? 0.4 : 0;
  options.is_causal = is_causal;
  if (is_padded) {
    options.mask = torch::zeros({2, 1, 1, 24});
    options.mask[0].slice(2, 20, 24).fill_(std::numeric_limits<float>::lowest());
  }
  const auto layer = [&](const Tensors& t) {
    const bool is_exact = t[0].scalar_type() == torch::kDouble;
    return packed_attention(is_exact ? t[0] : t[0].to(torch::kBFloat16), options);
  };
  expect_near_fp64(layer, {bf16_values({48, 3 * 3 * 16})}, 4);  // scores, probabilities and results are rounded
}

INSTANTIATE_TEST_SUITE_P(Options, Bf16Attention,
                         ::testing::Combine(::testing::Bool(), ::testing::Bool(), ::testing::Bool()));

TEST(Bf16Layers, TextsOfPaddingAloneStayFinite) {
  torch::manual_seed(1);
  AttentionOptions options;
  options.size = 1;
  options.length = 4;
  options.heads = 1;
  options.mask = torch::full({1, 1, 1, 4}, std::numeric_limits<float>::lowest());
  const Tensor out = packed_attention(bf16_values({4, 24}).to(torch::kBFloat16), options);
  EXPECT_TRUE(out.isfinite().all().item<bool>());
}

TEST(Bf16Layers, GradientsAreAddedInFp32AndInPlace) {
  Tensor weight = bf16_values({8, 8}).requires_grad_(), bias = torch::zeros({8}).requires_grad_();
  // A sum in bf16 would end at 256, and one that is added in bf16 would lose the 0.125.
  weight.mutable_grad() = torch::full_like(weight, 0.125);
  bias.mutable_grad() = torch::full_like(bias, 0.125);
  const void* const memory = weight.grad().data_ptr();
  const Autocast autocast(c10::DeviceType::CPU, at::kBFloat16, true);
  dense(torch::ones({4096, 8}), weight, bias, WeightLayout::OutIn).sum().backward();
  EXPECT_EQ(weight.grad().data_ptr(), memory);
  EXPECT_TRUE(torch::equal(weight.grad(), torch::full({8, 8}, 4096.125F)));
  EXPECT_TRUE(torch::equal(bias.grad(), torch::full({8}, 4096.125F)));
}

TEST(Bf16Layers, HaveGradientsOfGradients) {
  torch::manual_seed(6);
  const Tensors values{bf16_values({9, 16}), bf16_values({12, 16}), bf16_values({12})};
  const auto second = [&](at::ScalarType type, bool autocasts) {
    const Tensors t = as_leaves(values, type);
    const Autocast autocast(c10::DeviceType::CPU, at::kBFloat16, autocasts);
    const Tensor out = dense(t[0], t[1], t[2], WeightLayout::OutIn).to(type);
    const Tensor first = torch::autograd::grad({out.pow(2).sum()}, {t[0]}, {}, true, true)[0];
    return torch::autograd::grad({first.pow(2).sum()}, {t[1]})[0];
  };
  const Tensor want = second(torch::kDouble, false);
  EXPECT_LE((second(torch::kFloat, true).to(torch::kDouble) - want).abs().max().item<double>(),
            4 * kUnit * want.abs().max().item<double>());
}

TEST(Bf16Layers, DropoutRoundsEveryValueToNearestEven) {
  Tensor bits = torch::arange(65536).to(torch::kInt).to(torch::kShort);
  const Tensor x = torch::from_blob(bits.data_ptr(), {65536}, torch::kBFloat16).clone();
  torch::manual_seed(7);
  const Tensor got = apply_dropout(x, 0.3, true);
  torch::manual_seed(7);
  const Tensor kept = apply_dropout(torch::ones({65536}), 0.3, true).ne(0);
  const Tensor scaled = (x.to(torch::kFloat) * static_cast<float>(1 / (1 - 0.3))).to(torch::kBFloat16);
  const Tensor want = torch::where(kept, scaled, torch::zeros_like(scaled));
  EXPECT_TRUE(torch::equal(got.isnan(), want.isnan()));
  EXPECT_TRUE(torch::equal(got.nan_to_num(), want.nan_to_num()));
}

TEST(Bf16Layers, HaveTheTypeOfAutocast) {
  const Tensor single = torch::ones({1}), twice = torch::ones({1}, torch::kDouble);
  EXPECT_EQ(shortcut_type(single), torch::kFloat);
  EXPECT_EQ(shortcut_type(twice), torch::kDouble);
  EXPECT_EQ(shortcut_type(single.to(torch::kBFloat16)), std::nullopt);
  const Autocast autocast(c10::DeviceType::CPU, at::kBFloat16, true);
  EXPECT_EQ(shortcut_type(single), torch::kBFloat16);
  EXPECT_EQ(shortcut_type(single.to(torch::kBFloat16)), torch::kBFloat16);
  EXPECT_EQ(shortcut_type(twice), std::nullopt);
}

// The gradients of a model's loss, beside each other.
Tensor gradients_of(Model& model, const Batch& batch, bool autocasts) {
  torch::manual_seed(9);
  Tensor out;
  {
    const Autocast autocast(c10::DeviceType::CPU, at::kBFloat16, autocasts);
    out = model.forward(batch);
  }
  std::vector<Tensor> flat;
  for (const Tensor& g : torch::autograd::grad({model.loss(out.to(torch::kFloat), batch).mean()}, model.parameters())) {
    flat.push_back(g.flatten());
  }
  return torch::cat(flat);
}

void expect_gradients_near_fp32(Model& model) {
  model.train();
  const Batch batch = model.random_batch({4, 16, 1, true});
  const Tensor want = gradients_of(model, batch, false), got = gradients_of(model, batch, true);
  EXPECT_LT((got - want).norm().item<double>(), 0.05 * want.norm().item<double>());
}

TEST(Bf16Models, BertHasTheGradientsOfFp32) {
  BertConfig config;
  config.vocab_size = 30;
  config.hidden_size = 32;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  config.intermediate_size = 64;
  config.max_position_embeddings = 16;
  config.initializer_range = 0.1;
  torch::manual_seed(8);
  expect_gradients_near_fp32(*std::make_shared<BertForMaskedLMImpl>(config));
}

TEST(Bf16Models, Gpt2HasTheGradientsOfFp32) {
  GPT2Config config;
  config.vocab_size = 30;
  config.n_embd = 32;
  config.n_layer = 2;
  config.n_head = 2;
  config.n_positions = 16;
  config.initializer_range = 0.1;
  torch::manual_seed(8);
  expect_gradients_near_fp32(*std::make_shared<GPT2LMHeadModelImpl>(config));
}

TEST(Bf16Models, Qwen3HasTheGradientsOfFp32) {
  Qwen3Config config;
  config.vocab_size = 30;
  config.hidden_size = config.intermediate_size = 32;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 8;
  config.max_position_embeddings = 16;
  config.initializer_range = 0.1;
  torch::manual_seed(8);
  expect_gradients_near_fp32(*std::make_shared<Qwen3ForCausalLMImpl>(config));
}

}  // namespace
}  // namespace lockstep

// Compares the transformers' faster functions with LibTorch's own operators, and with autograd's guarantees.
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <tuple>

#include "lockstep/models/bert_heads.h"
#include "lockstep/models/gpt2.h"
#include "lockstep/models/layers/attention.h"
#include "lockstep/models/layers/attention_composed.h"
#include "lockstep/models/layers/attention_function.h"
#include "lockstep/models/layers/dense_function.h"
#include "lockstep/models/layers/dropout.h"

namespace lockstep {
namespace {

using torch::Tensor;

double largest_difference(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

// Parameters: causal, padded, dropout.
class Attention : public ::testing::TestWithParam<std::tuple<bool, bool, bool>> {
 protected:
  void SetUp() override {
    const auto [is_causal, is_padded, has_dropout] = GetParam();
    torch::manual_seed(1);
    options_.size = 2;
    options_.length = 5;
    options_.heads = 3;
    options_.scale = 0.5;
    options_.dropout_p = has_dropout ? 0.4 : 0;
    options_.is_causal = is_causal;
    if (is_padded) {  // the first text is padded on the left, so with causality its first token sees no token
      options_.mask = torch::zeros({2, 1, 1, 5}, torch::kDouble);
      options_.mask[0].slice(2, 0, 2).fill_(std::numeric_limits<double>::lowest());
      options_.mask[1].slice(2, 4, 5).fill_(std::numeric_limits<double>::lowest());
    }
    qkv_ = torch::randn({10, 36}, torch::kDouble).requires_grad_();
    weights_ = torch::randn({10, 12}, torch::kDouble);
  }

  Tensor composed() const {
    return composed_attention(qkv_.narrow(1, 0, 12), qkv_.narrow(1, 12, 12), qkv_.narrow(1, 24, 12), options_);
  }

  AttentionOptions options_;
  Tensor qkv_;
  Tensor weights_;
};

TEST_P(Attention, GivesTheValuesAndGradientsOfTheOperatorsOneByOne) {
  torch::manual_seed(2);
  const Tensor got = packed_attention(qkv_, options_);
  torch::manual_seed(2);
  const Tensor want = composed();
  EXPECT_LT(largest_difference(got, want), 1e-13);
  const Tensor got_gradient = torch::autograd::grad({(got * weights_).sum()}, {qkv_})[0];
  const Tensor want_gradient = torch::autograd::grad({(want * weights_).sum()}, {qkv_})[0];
  EXPECT_LT(largest_difference(got_gradient, want_gradient), 1e-13);
}

TEST_P(Attention, HasGradientsOfGradients) {
  const auto second = [&](const Tensor& out) {
    const Tensor first = torch::autograd::grad({(out * weights_).sum()}, {qkv_}, {}, true, true)[0];
    return torch::autograd::grad({first.pow(2).sum()}, {qkv_})[0];
  };
  torch::manual_seed(2);
  const Tensor got = second(packed_attention(qkv_, options_));
  torch::manual_seed(2);
  const Tensor want = second(composed());
  EXPECT_LT(largest_difference(got, want), 1e-11);
}

INSTANTIATE_TEST_SUITE_P(Options, Attention,
                         ::testing::Combine(::testing::Bool(), ::testing::Bool(), ::testing::Bool()));

TEST(AttentionOptions, HeadsOfEverySizeAreRight) {
  for (const std::int64_t size : {1, 2, 16}) {
    for (const std::int64_t length : {1, 3, 40}) {
      AttentionOptions options;
      options.size = 2;
      options.length = length;
      options.heads = 2;
      options.scale = 0.3;
      const Tensor qkv = torch::randn({2 * length, 6 * size}, torch::kDouble);
      const Tensor want = composed_attention(qkv.narrow(1, 0, 2 * size), qkv.narrow(1, 2 * size, 2 * size),
                                             qkv.narrow(1, 4 * size, 2 * size), options);
      EXPECT_LT(largest_difference(attention(qkv, options), want), 1e-13) << size << " " << length;
    }
  }
}

TEST(Dropout, DropsTheShareAndScalesTheRest) {
  torch::manual_seed(5);
  const Tensor x = torch::ones({1000, 999});
  const Tensor y = apply_dropout(x, 0.1, true);
  const double dropped = y.eq(0).to(torch::kDouble).mean().item<double>();
  EXPECT_NEAR(dropped, 0.1, 5 * std::sqrt(0.1 * 0.9 / 999000));
  EXPECT_TRUE(torch::allclose(y.masked_select(y.ne(0)), torch::tensor(1 / 0.9f)));
  EXPECT_TRUE(apply_dropout(x, 0.1, false).is_same(x));
  EXPECT_TRUE(apply_dropout(x, 0, true).is_same(x));
  EXPECT_EQ(apply_dropout(x, 1, true).abs().sum().item<float>(), 0);
}

TEST(Dropout, FollowsTheGeneratorsState) {
  const Tensor x = torch::randn({77});
  torch::manual_seed(5);
  const Tensor first = apply_dropout(x, 0.5, true), second = apply_dropout(x, 0.5, true);
  torch::manual_seed(5);
  EXPECT_TRUE(torch::equal(apply_dropout(x, 0.5, true), first));
  EXPECT_TRUE(torch::equal(apply_dropout(x, 0.5, true), second));
  EXPECT_FALSE(torch::equal(first, second));
}

TEST(Dropout, PositionsAndDrawsAreIndependent) {
  torch::manual_seed(6);
  constexpr std::int64_t kCount = 1 << 18;
  const auto signs = [] { return apply_dropout(torch::ones({kCount}), 0.5, true) - 1; };  // ±1
  const Tensor a = signs();
  const double bound = 5 / std::sqrt(static_cast<double>(kCount));
  for (const std::int64_t lag : {1, 2, 16, 64, 1024, 65536}) {
    const Tensor product = a.slice(0, lag) * a.slice(0, 0, kCount - lag);
    EXPECT_LT(std::abs(product.mean().item<double>()), bound) << lag;
  }
  for (int i = 0; i < 20; ++i) EXPECT_LT(std::abs((a * signs()).mean().item<double>()), bound);
}

TEST(Dropout, GradientsArePassedWhereValuesWere) {
  torch::manual_seed(7);
  const Tensor x = torch::randn({9, 31}).requires_grad_(), residual = torch::randn({9, 31}).requires_grad_();
  const Tensor weights = torch::randn({9, 31});
  torch::manual_seed(8);
  const Tensor mask = apply_dropout(torch::ones({9, 31}), 0.3, true);
  torch::manual_seed(8);
  const Tensor y = add_dropout(x, residual, 0.3, true);
  EXPECT_TRUE(torch::allclose(y, x * mask + residual));
  const auto gradients = torch::autograd::grad({(y * weights).sum()}, {x, residual});
  EXPECT_TRUE(torch::allclose(gradients[0], weights * mask));
  EXPECT_TRUE(torch::equal(gradients[1], weights));
  const Tensor strided = torch::randn({31, 9}).t();
  torch::manual_seed(8);
  EXPECT_TRUE(torch::allclose(apply_dropout(strided, 0.3, true), strided * mask));
}

BertConfig shortcut_bert() {
  BertConfig config;
  config.vocab_size = 13;
  config.hidden_size = 12;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  config.intermediate_size = 20;
  config.max_position_embeddings = 8;
  config.initializer_range = 0.3;
  return config;
}

class InPlaceGradients : public ::testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(3);
    model_ = std::make_shared<BertForMaskedLMImpl>(shortcut_bert());
    model_->eval();
    batch_ = model_->random_batch({2, 6, 1, true});
    plain_ = torch::autograd::grad({loss()}, model_->parameters());
  }

  Tensor loss() { return model_->loss(static_cast<Model&>(*model_).forward(batch_), batch_).sum; }

  void expect_gradients(double factor, double start = 0) {
    const auto parameters = model_->named_parameters();
    std::size_t i = 0;
    for (const auto& parameter : parameters) {
      ASSERT_TRUE(parameter.value().grad().defined()) << parameter.key();
      EXPECT_LT(largest_difference(parameter.value().grad(), plain_[i++] * factor + start), 1e-5) << parameter.key();
    }
  }

  std::shared_ptr<BertForMaskedLMImpl> model_;
  Batch batch_;
  std::vector<Tensor> plain_;
};

TEST_F(InPlaceGradients, AreAddedToWhatIsThere) {
  for (auto& parameter : model_->parameters()) parameter.mutable_grad() = torch::full_like(parameter, 2);
  std::vector<const void*> memory;
  for (const auto& parameter : model_->parameters()) memory.push_back(parameter.grad().data_ptr());
  loss().backward();
  expect_gradients(1, 2);
  loss().backward();
  expect_gradients(2, 2);
  std::size_t i = 0;
  for (const auto& parameter : model_->parameters()) EXPECT_EQ(parameter.grad().data_ptr(), memory[i++]);
}

TEST_F(InPlaceGradients, StartFromNothing) {
  loss().backward();
  expect_gradients(1);
  loss().backward();
  expect_gradients(2);
}

TEST_F(InPlaceGradients, AreNotTouchedWhereGradientsAreCaptured) {
  for (auto& parameter : model_->parameters()) parameter.mutable_grad() = torch::zeros_like(parameter);
  const auto captured = torch::autograd::grad({loss()}, model_->parameters());
  for (std::size_t i = 0; i < captured.size(); ++i) EXPECT_TRUE(torch::equal(captured[i], plain_[i]));
  expect_gradients(0);
  const auto parameters = model_->parameters();
  torch::autograd::backward({loss()}, {}, false, false, {parameters[0]});
  EXPECT_LT(largest_difference(parameters[0].grad(), plain_[0]), 1e-6);
  EXPECT_EQ(parameters[1].grad().abs().sum().item<float>(), 0);
}

TEST_F(InPlaceGradients, CanBePartOfAGraph) {
  for (auto& parameter : model_->parameters()) parameter.mutable_grad() = torch::zeros_like(parameter);
  torch::autograd::backward({loss()}, {}, true, /*create_graph=*/true);
  expect_gradients(1);
  EXPECT_TRUE(model_->parameters()[0].grad().requires_grad());
}

TEST_F(InPlaceGradients, ShowHooksOfTensorsTheGradient) {
  for (auto& parameter : model_->parameters()) parameter.mutable_grad() = torch::zeros_like(parameter);
  int calls = 0;
  for (auto& parameter : model_->parameters()) {
    parameter.register_hook([&calls](const Tensor& gradient) {
      calls += gradient.defined();
      return gradient * 3;
    });
  }
  loss().backward();
  EXPECT_EQ(calls, static_cast<int>(model_->parameters().size()));
  expect_gradients(3);
}

struct CountingHook : torch::autograd::FunctionPostHook {
  explicit CountingHook(int& calls) : calls_(calls) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    ++calls_;
    return outputs;
  }
  int& calls_;
};

TEST_F(InPlaceGradients, RunTheHooksOfEveryAccumulatorOnceAndAfterwards) {
  for (auto& parameter : model_->parameters()) parameter.mutable_grad() = torch::zeros_like(parameter);
  std::vector<int> calls(model_->parameters().size());
  std::vector<decltype(torch::autograd::impl::grad_accumulator(torch::Tensor()))> accumulators;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    accumulators.push_back(torch::autograd::impl::grad_accumulator(model_->parameters()[i]));
    accumulators.back()->add_post_hook(std::make_unique<CountingHook>(calls[i]));
  }
  loss().backward();
  EXPECT_EQ(calls, std::vector<int>(calls.size(), 1));
  expect_gradients(1);
}

TEST_F(InPlaceGradients, PassOverFrozenParameters) {
  auto parameters = model_->named_parameters();
  for (auto& parameter : parameters) {
    parameter.value().mutable_grad() = torch::zeros_like(parameter.value());
    parameter.value().set_requires_grad(parameter.key().find("layer.1") != std::string::npos);
  }
  loss().backward();
  std::size_t i = 0;
  for (const auto& parameter : parameters) {
    const Tensor want = parameter.value().requires_grad() ? plain_[i] : torch::zeros_like(plain_[i]);
    EXPECT_LT(largest_difference(parameter.value().grad(), want), 1e-6) << parameter.key();
    ++i;
  }
}

TEST(Shortcuts, FollowAutocast) {
  torch::manual_seed(3);
  BertForSequenceClassification model(shortcut_bert());
  model->eval();
  const Batch batch = model->random_batch({2, 6, 1});
  for (auto& parameter : model->parameters()) parameter.mutable_grad() = torch::zeros_like(parameter);
  const Tensor exact = static_cast<Model&>(*model).forward(batch);
  c10::impl::tls_set_dispatch_key_excluded(c10::DispatchKey::AutocastCPU, false);
  const Tensor scores = static_cast<Model&>(*model).forward(batch);
  c10::impl::tls_set_dispatch_key_excluded(c10::DispatchKey::AutocastCPU, true);
  EXPECT_EQ(scores.scalar_type(), torch::kBFloat16);
  EXPECT_LT(largest_difference(scores, exact), 0.05 * exact.abs().max().item<double>() + 0.01);
  scores.sum().backward();
  for (const auto& parameter : model->named_parameters()) {
    EXPECT_TRUE(parameter.value().grad().isfinite().all().item<bool>()) << parameter.key();
  }
}

TEST(Shortcuts, ModelsRunInEveryFloatingType) {
  for (const auto dtype : {torch::kDouble, torch::kBFloat16}) {
    torch::manual_seed(3);
    GPT2Config config;
    config.vocab_size = 13;
    config.n_embd = 12;
    config.n_layer = 2;
    config.n_head = 2;
    config.n_positions = 8;
    GPT2LMHeadModel model(config);
    const Batch batch = model->random_batch({2, 6, 1, true});
    model->eval();
    const Tensor exact = static_cast<Model&>(*model).forward(batch);
    model->to(dtype);
    const Tensor scores = static_cast<Model&>(*model).forward(batch);
    EXPECT_EQ(scores.scalar_type(), dtype);
    EXPECT_LT(largest_difference(scores, exact), dtype == torch::kDouble ? 1e-5 : 0.05);
    model->train();
    const LossSum loss = model->loss(static_cast<Model&>(*model).forward(batch), batch);
    loss.mean().backward();
    for (const auto& parameter : model->parameters()) EXPECT_TRUE(parameter.grad().isfinite().all().item<bool>());
  }
}

TEST(Shortcuts, CheckpointingWorksWhereTheFirstLayersAreFrozen) {
  BertConfig config = shortcut_bert();
  config.gradient_checkpointing = true;
  config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0;
  BertForSequenceClassification model(config);
  model->train();
  for (auto& parameter : model->named_parameters()) {
    if (parameter.key().find("embeddings") != std::string::npos) parameter.value().set_requires_grad(false);
  }
  const Batch batch = model->random_batch({2, 6, 1});
  model->loss(static_cast<Model&>(*model).forward(batch), batch).sum.backward();
  for (const auto& parameter : model->named_parameters()) {
    EXPECT_EQ(parameter.value().grad().defined(), parameter.value().requires_grad()) << parameter.key();
  }
}

}  // namespace
}  // namespace lockstep

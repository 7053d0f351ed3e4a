#include "lockstep/optim/grad_scaler.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/optim/sgd.h"

namespace lockstep {
namespace {

using torch::optim::SGDOptions;

at::Tensor make_weight() { return torch::full({40}, 1.0F).set_requires_grad(true); }

void set_gradient(at::Tensor& weight, float value, bool bad = false) {
  weight.mutable_grad() = torch::full({40}, value);
  if (bad) weight.mutable_grad()[39] = std::numeric_limits<float>::infinity();
}

GradScaler::Options options(double scale, int interval) {
  GradScaler::Options result;
  result.init_scale = scale;
  result.growth_interval = interval;
  return result;
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(bool flat, const at::Tensor& weight) {
  if (flat) return std::make_unique<SGD>(std::vector<at::Tensor>{weight}, SGDOptions(0.5));
  return std::make_unique<torch::optim::SGD>(std::vector<at::Tensor>{weight}, SGDOptions(0.5));
}

/// Runs with one of LibTorch's optimizers and with one of Lockstep's.
class Scaler : public ::testing::TestWithParam<bool> {};

TEST_P(Scaler, ScalesTheLossAndTakesItBack) {
  at::Tensor weight = make_weight();
  const auto optimizer = make_optimizer(GetParam(), weight);
  GradScaler scaler(options(1024, 2000));
  scaler.scale(weight.sum()).backward();
  EXPECT_EQ(weight.grad()[0].item<float>(), 1024);
  EXPECT_TRUE(scaler.step(*optimizer));
  scaler.update();
  EXPECT_TRUE(torch::equal(weight, torch::full({40}, 0.5F)));
  EXPECT_FALSE(scaler.last_step_was_skipped());
}

// Makes one step with and without a scale; the gradient lists row 1 twice.
TEST(ScalerCases, UnscalesSparseGradients) {
  const at::Tensor want = torch::tensor({1.0F, 0.0F, 0.5F}).view({3, 1});
  torch::nn::Embedding table(torch::nn::EmbeddingOptions(3, 1).sparse(true));
  {
    const torch::NoGradGuard no_grad;
    table->weight.fill_(1);
  }
  torch::optim::SGD optimizer(table->parameters(), SGDOptions(0.5));
  GradScaler scaler(options(1024, 2000));
  scaler.scale(table->forward(torch::tensor({1, 2, 1})).sum()).backward();
  EXPECT_TRUE(scaler.step(optimizer));
  EXPECT_TRUE(table->weight.equal(want)) << table->weight;
}

TEST_P(Scaler, UnscalesInPlaceForThoseWhoLook) {
  at::Tensor weight = make_weight();
  const auto optimizer = make_optimizer(GetParam(), weight);
  GradScaler scaler(options(1024, 2000));
  scaler.scale(weight.sum()).backward();
  scaler.unscale_(*optimizer);
  EXPECT_EQ(weight.grad()[0].item<float>(), 1);
  EXPECT_TRUE(scaler.step(*optimizer));
  EXPECT_TRUE(torch::equal(weight, torch::full({40}, 0.5F)));
}

TEST_P(Scaler, LeavesOutStepsAndBacksOff) {
  for (const bool unscale : {false, true}) {
    at::Tensor weight = make_weight();
    const auto optimizer = make_optimizer(GetParam(), weight);
    GradScaler scaler(options(1024, 2000));
    set_gradient(weight, 1, true);
    if (unscale) scaler.unscale_(*optimizer);
    EXPECT_FALSE(scaler.step(*optimizer));
    scaler.update();
    EXPECT_TRUE(scaler.last_step_was_skipped());
    EXPECT_EQ(scaler.get_scale(), 512);
    EXPECT_TRUE(torch::equal(weight, torch::full({40}, 1.0F)));
  }
}

TEST_P(Scaler, GrowsAfterAnIntervalWithoutInfinities) {
  at::Tensor weight = make_weight();
  const auto optimizer = make_optimizer(GetParam(), weight);
  GradScaler scaler(options(8, 3));
  std::vector<double> scales;
  for (const bool bad : {false, false, true, false, false, false, false, false, false}) {
    set_gradient(weight, 0, bad);
    scaler.step(*optimizer);
    scaler.update();
    scales.push_back(scaler.get_scale());
  }
  EXPECT_EQ(scales, (std::vector<double>{8, 8, 4, 4, 4, 8, 8, 8, 16}));
}

TEST_P(Scaler, RefusesCallsOutOfOrder) {
  at::Tensor weight = make_weight();
  const auto optimizer = make_optimizer(GetParam(), weight);
  GradScaler scaler;
  EXPECT_THROW(scaler.update(), Error);
  set_gradient(weight, 1);
  scaler.unscale_(*optimizer);
  EXPECT_THROW(scaler.unscale_(*optimizer), Error);
  scaler.step(*optimizer);
  EXPECT_THROW(scaler.unscale_(*optimizer), Error);
  EXPECT_THROW(scaler.step(*optimizer), Error);
  scaler.update();
  scaler.step(*optimizer);
}

TEST_P(Scaler, PassesThroughWhereItIsDisabled) {
  at::Tensor weight = make_weight();
  const auto optimizer = make_optimizer(GetParam(), weight);
  GradScaler::Options off;
  off.enabled = false;
  GradScaler scaler(off);
  scaler.scale(weight.sum()).backward();
  EXPECT_EQ(weight.grad()[0].item<float>(), 1);
  scaler.unscale_(*optimizer);
  EXPECT_TRUE(scaler.step(*optimizer));
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 1);
  EXPECT_TRUE(torch::equal(weight, torch::full({40}, 0.5F)));
}

INSTANTIATE_TEST_SUITE_P(Optimizers, Scaler, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Ours" : "LibTorchs"; });

TEST(GradScalerTest, HasPyTorchsDefaults) {
  GradScaler scaler;
  EXPECT_EQ(scaler.get_scale(), 65536);
  const GradScaler::Options defaults;
  EXPECT_EQ(defaults.growth_factor, 2);
  EXPECT_EQ(defaults.backoff_factor, 0.5);
  EXPECT_EQ(defaults.growth_interval, 2000);
}

TEST(GradScalerTest, GoesOnFromSavedState) {
  at::Tensor weight = make_weight();
  SGD optimizer(std::vector<at::Tensor>{weight}, SGDOptions(0.5));
  GradScaler scaler(options(8, 3));
  set_gradient(weight, 0);
  scaler.step(optimizer);
  scaler.update();
  GradScaler other(options(1, 3));
  other.load_state(scaler.state());
  for (int i = 0; i < 2; ++i) {
    other.step(optimizer);
    other.update();
  }
  EXPECT_EQ(other.get_scale(), 16);
  other.update(5);
  EXPECT_EQ(other.get_scale(), 5);
}

TEST(GradScalerTest, ClipsUnscaledGradients) {
  at::Tensor weight = make_weight();
  SGD optimizer(std::vector<at::Tensor>{weight}, SGDOptions(1));
  GradScaler scaler(options(64, 2000));
  set_gradient(weight, 64);
  StepOptions step;
  step.max_norm = std::sqrt(40.0) / 2;
  const StepResult result = scaler.step(optimizer, step);
  EXPECT_NEAR(result.norm, std::sqrt(40.0), 1e-6);
  EXPECT_NEAR(weight[0].item<float>(), 0.5, 1e-6);
}

TEST(GradScalerTest, DoesNotGrowOutOfFloat) {
  at::Tensor weight = make_weight();
  SGD optimizer(std::vector<at::Tensor>{weight}, SGDOptions(0));
  GradScaler scaler(options(3e38, 1));
  set_gradient(weight, 0);
  scaler.step(optimizer);
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 3e38);
}

TEST(GradScalerTest, RefusesOptionsThatMakeNoSense) {
  GradScaler::Options wrong;
  wrong.growth_factor = 1;
  EXPECT_THROW(GradScaler{wrong}, Error);
  wrong = {};
  wrong.backoff_factor = 1;
  EXPECT_THROW(GradScaler{wrong}, Error);
  wrong = {};
  wrong.init_scale = 0;
  EXPECT_THROW(GradScaler{wrong}, Error);
  GradScaler scaler;
  EXPECT_THROW(scaler.update(0), Error);
}

class NoDelegate : public StepDelegate {
  StepResult step(const StepOptions&) override { return {}; }
  bool gradients_are_zero() const override { return false; }
  void gradients_dropped() override {}
  bool covers(const at::Tensor&) const override { return true; }
  double gradient_norm(const std::vector<at::Tensor>&, const ClipOptions&) override { return 0; }
  void scale_gradients(const std::vector<at::Tensor>&, double) override {}
  void optimizer_destroyed() noexcept override {}
};

TEST(GradScalerTest, RefusesToUnscaleGradientsThatTheStepSums) {
  at::Tensor weight = make_weight();
  NoDelegate delegate;
  SGD optimizer(std::vector<at::Tensor>{weight}, SGDOptions(0.5));
  optimizer.set_step_delegate(&delegate);
  GradScaler scaler;
  EXPECT_THROW(scaler.unscale_(optimizer), Error);
  EXPECT_TRUE(scaler.step(optimizer));
}

}  // namespace
}  // namespace lockstep

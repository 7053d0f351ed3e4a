// Tests what users do with an optimizer besides plain steps: closures, clipping and zeroing in the same pass,
// delegates.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/base/error.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/clip_grad_norm.h"
#include "lockstep/optim/sgd.h"
#include "tests/optim/two_parameters.h"

namespace lockstep {
namespace {

using optim_tests::expect_equal;
using optim_tests::rounding;
using optim_tests::set_gradients;
using optim_tests::train;
using optim_tests::two_parameters;
using optim_tests::values_of;
using torch::optim::AdamOptions;
using torch::optim::SGDOptions;

TEST(Step, RunsAClosureWithGradientsOn) {
  at::Tensor weight = torch::full({4}, 2.0).set_requires_grad(true);
  SGD optimizer(std::vector<at::Tensor>{weight}, SGDOptions(0.25));
  const torch::NoGradGuard no_grad;
  const at::Tensor loss = optimizer.step([&] {
    optimizer.zero_grad();
    at::Tensor value = weight.mul(weight).sum();
    value.backward();
    return value;
  });
  EXPECT_EQ(loss.item<float>(), 16);
  EXPECT_TRUE(torch::equal(weight, torch::full({4}, 1.0)));  // 2 - 0.25 * 4
}

TEST(StepWith, ClipsAndZeroesInTheSamePass) {
  const auto ours = two_parameters();
  const auto theirs = values_of(ours);
  Adam a(ours, AdamOptions(0.1));
  torch::optim::Adam b(theirs, AdamOptions(0.1));
  for (unsigned step = 0; step < 20; ++step) {
    set_gradients(ours, step);
    set_gradients(theirs, step);
    StepOptions options;
    options.max_norm = step % 2 == 0 ? 1 : 1000;
    options.zero_grad = true;
    const StepResult result = a.step_with(options);
    const double norm = torch::nn::utils::clip_grad_norm_(theirs, options.max_norm);
    b.step();
    EXPECT_NEAR(result.norm, norm, 1e-6 * norm);
    for (const auto& parameter : ours) EXPECT_EQ(parameter.grad().count_nonzero().item<std::int64_t>(), 0);
  }
  expect_equal(ours, theirs, 2e-6);  // LibTorch's norm is an fp32 number
}

TEST(StepWith, LeavesOutTheUpdateIfAGradientIsNotFinite) {
  const auto parameters = two_parameters();
  const auto before = values_of(parameters);
  Adam optimizer(parameters, AdamOptions(0.1));
  for (const double max_norm : {0.0, 1.0}) {
    set_gradients(parameters, 1);
    at::Tensor(parameters[1].grad())[10] = NAN;
    StepOptions options;
    options.check_finite = true;
    options.max_norm = max_norm;
    options.zero_grad = true;
    EXPECT_TRUE(optimizer.step_with(options).skipped);
    expect_equal(parameters, before);
    for (const auto& parameter : parameters) EXPECT_EQ(parameter.grad().count_nonzero().item<std::int64_t>(), 0);
  }
  set_gradients(parameters, 1);
  StepOptions options;
  options.check_finite = true;
  EXPECT_FALSE(optimizer.step_with(options).skipped);
}

TEST(StepWith, TakesHalfGradientsForFloatWeights) {
  for (const at::ScalarType dtype : {torch::kBFloat16, torch::kHalf}) {
    const auto ours = two_parameters();
    const auto theirs = values_of(ours);
    AdamW a(ours, torch::optim::AdamWOptions(0.1));
    torch::optim::AdamW b(theirs, torch::optim::AdamWOptions(0.1));
    for (unsigned step = 0; step < 10; ++step) {
      set_gradients(ours, step);
      for (std::size_t i = 0; i < ours.size(); ++i) {
        const at::Tensor half = ours[i].grad().to(dtype);
        at::Tensor(ours[i]).mutable_grad() = half;
        at::Tensor(theirs[i]).mutable_grad() = half.to(torch::kFloat);
      }
      a.step();
      b.step();
    }
    expect_equal(ours, theirs, rounding());
  }
}

// Weights that no kernel supports are updated by tensor operations.
TEST(Step, UpdatesHalfWeightsAsLibTorchDoes) {
  std::vector<at::Tensor> ours{torch::randn({33}).to(torch::kBFloat16).set_requires_grad(true)};
  const auto theirs = values_of(ours);
  SGD a(ours, SGDOptions(0.1).momentum(0.9));
  torch::optim::SGD b(theirs, SGDOptions(0.1).momentum(0.9));
  train(a, ours, 0, 5);
  train(b, theirs, 0, 5);
  expect_equal(ours, theirs);
}

TEST(Step, DoesNotDependOnThreads) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "libgomp is not built for the thread sanitizer, which then reports its barriers";
#endif
  const int threads = at::get_num_threads();
  std::vector<std::vector<at::Tensor>> results;
  for (const int count : {1, 2, 5}) {
    at::set_num_threads(count);
    torch::manual_seed(1);
    std::vector<at::Tensor> parameters;
    for (const std::int64_t n : {70001, 3, 50000, 33}) parameters.push_back(torch::randn({n}).set_requires_grad(true));
    AdamW optimizer(parameters, torch::optim::AdamWOptions(0.1));
    for (unsigned step = 0; step < 3; ++step) {
      set_gradients(parameters, step);
      StepOptions options;
      options.max_norm = 1;
      optimizer.step_with(options);
    }
    results.push_back(parameters);
  }
  at::set_num_threads(threads);
  expect_equal(results[1], results[0]);
  expect_equal(results[2], results[0]);
}

TEST(ZeroGrad, WorksOnViewsAndGraphs) {
  const at::Tensor bucket = torch::ones({20});
  at::Tensor a = torch::ones({8}).set_requires_grad(true);
  at::Tensor b = torch::ones({3}).set_requires_grad(true);
  at::Tensor c = torch::ones({3}).set_requires_grad(true);  // without a gradient
  a.mutable_grad() = bucket.narrow(0, 0, 8);
  b.mutable_grad() = torch::ones({3}).set_requires_grad(true).mul(2);
  SGD optimizer(std::vector<at::Tensor>{a, b, c}, SGDOptions(0.1));
  optimizer.zero_grad();
  EXPECT_EQ(bucket.sum().item<float>(), 12);
  EXPECT_EQ(b.grad().count_nonzero().item<std::int64_t>(), 0);
  EXPECT_FALSE(b.grad().requires_grad());
  EXPECT_FALSE(c.grad().defined());
}

class CountingDelegate : public StepDelegate {
 public:
  StepResult step(const StepOptions& options) override {
    ++steps;
    return {options.max_norm, true};
  }
  bool gradients_are_zero() const override { return zero; }
  void gradients_dropped() override { ++drops; }
  bool covers(const at::Tensor&) const override { return true; }
  double gradient_norm(const std::vector<at::Tensor>& parameters, const ClipOptions& options) override {
    return options.norm_type * static_cast<double>(parameters.size());
  }
  void scale_gradients(const std::vector<at::Tensor>& parameters, double factor) override {
    scaled = parameters.size();
    scale = factor;
  }
  void optimizer_destroyed() noexcept override { gone = true; }
  bool gone = false;
  int steps = 0;
  int drops = 0;
  bool zero = true;
  std::size_t scaled = 0;
  double scale = 0;
};

TEST(Delegate, TakesOverSteps) {
  const auto parameters = two_parameters();
  const auto before = values_of(parameters);
  Adam optimizer(parameters, AdamOptions(0.1));
  CountingDelegate delegate;
  optimizer.set_step_delegate(&delegate);
  set_gradients(parameters, 1);
  static_cast<torch::optim::Optimizer&>(optimizer).step();
  StepOptions options;
  options.max_norm = 7;
  EXPECT_EQ(optimizer.step_with(options).norm, 7);
  EXPECT_EQ(delegate.steps, 2);
  expect_equal(parameters, before);
  optimizer.zero_grad();
  EXPECT_NE(parameters[0].grad().count_nonzero().item<std::int64_t>(), 0);
  EXPECT_EQ(delegate.drops, 0);
  delegate.zero = false;
  optimizer.zero_grad();
  EXPECT_EQ(delegate.drops, 1);
  EXPECT_EQ(parameters[0].grad().count_nonzero().item<std::int64_t>(), 0);
  optimizer.set_step_delegate(nullptr);
  optimizer.step();
  EXPECT_EQ(delegate.steps, 2);
}

TEST(Delegate, ClipsAndLearnsThatTheOptimizerIsGone) {
  CountingDelegate delegate;
  {
    Adam optimizer(two_parameters(), AdamOptions(0.1));
    optimizer.set_step_delegate(&delegate);
    EXPECT_EQ(clip_grad_norm_(optimizer, 3, 2), 4);
    EXPECT_EQ(delegate.scaled, 2U);
    EXPECT_NEAR(delegate.scale, 0.75, 1e-6);
    EXPECT_FALSE(delegate.gone);
  }
  EXPECT_TRUE(delegate.gone);
}

TEST(OptimizerErrors, SayWhatIsWrong) {
  const auto parameters = two_parameters();
  EXPECT_THROW(SGD(parameters, SGDOptions(-1)), Error);
  EXPECT_THROW(SGD(parameters, SGDOptions(NAN)), Error);
  EXPECT_THROW(SGD(parameters, SGDOptions(1).momentum(-0.1)), Error);
  EXPECT_THROW(SGD(parameters, SGDOptions(1).weight_decay(-0.1)), Error);
  EXPECT_THROW(SGD(parameters, SGDOptions(1).nesterov(true)), Error);
  EXPECT_THROW(SGD(parameters, SGDOptions(1).nesterov(true).momentum(0.9).dampening(0.1)), Error);
  EXPECT_THROW(Adam(parameters, AdamOptions(-1)), Error);
  EXPECT_THROW(Adam(parameters, AdamOptions(1).eps(-1)), Error);
  EXPECT_THROW(Adam(parameters, AdamOptions(1).betas(std::make_tuple(1.0, 0.9))), Error);
  EXPECT_THROW(Adam(parameters, AdamOptions(1).betas(std::make_tuple(0.9, -0.1))), Error);
  EXPECT_THROW(AdamW(parameters, torch::optim::AdamWOptions(1).weight_decay(-1)), Error);

  Adam optimizer(parameters, AdamOptions(0.1));
  at::Tensor weight = parameters[0];
  weight.mutable_grad() = torch::zeros({5, 7}).to_sparse();
  EXPECT_THROW(optimizer.step(), Error);
}

}  // namespace
}  // namespace lockstep
